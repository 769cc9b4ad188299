"""The pages: what the API answers, for people."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter(include_in_schema=False)

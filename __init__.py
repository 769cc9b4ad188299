"""Lanemap: which lane, register and slot of a tensor-core instruction holds which matrix element, as a database."""

from .db.fragment import LanemapError

__all__ = ["LanemapError"]

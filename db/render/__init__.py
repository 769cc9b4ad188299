"""What people and toolchains see: notations, pictures, reports."""

"""Sources that are read: the catalogue of the documentation, in PTX's own notation, and other toolchains' layouts."""

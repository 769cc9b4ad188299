"""Pictures: elements are joined into ``runs``, in a ``grid``, placed by ``layout`` and written by ``formats``."""

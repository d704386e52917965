from . import animals
from .barn import Barn

__all__ = ["Barn", "animals"]

from ...farm import animals

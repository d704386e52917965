import warnings


class ConfigError(Exception):
    """Has a text of its own."""

    def __init__(self, key):
        super().__init__(f"no {key!r} in the configuration")
        self.key = key


def lookup(settings, key):
    try:
        return settings[key]
    except KeyError:
        raise ConfigError(key) from None


warnings.warn("settings are old", FutureWarning)
for _ in range(3):
    warnings.warn("said once", UserWarning)
settings = {"host": "here"}
print(lookup(settings, "host"))
print(lookup(settings, "port"))

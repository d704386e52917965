import math

big = 2 ** 200
tiny = 5e-324
values = [0.1 + 0.2, 1e308 * 10, -0.0, math.nan, 3 + 4j, True, big, -big, tiny]
print(values[0], values[1], values[2], values[3], abs(values[4]), big % 97, tiny / 2)
print(round(2.5), round(3.5), -7 // 2, -7 % 3, divmod(7, -2), 0.1 * 3 == 0.3, math.isclose(0.1 * 3, 0.3))
print(int.from_bytes(b"\xff\x00"), f"{255:#x} {1234567.891:,.2f} {0.00001234:g}", hash(1) == hash(1.0))
print(len(str(10 ** 4299)))
print(str(10 ** 4300))

import os
import sys

import helper

print(sys.argv, __file__, __name__)
print(os.getcwd(), os.path.relpath(sys.path[0], os.getcwd()))
with open("numbers.txt", encoding="utf-8") as file:
    print(helper.add_up(file))

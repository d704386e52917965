import csv
import os
import shutil
import sqlite3
import tempfile
from pathlib import Path

print(sorted(os.listdir()), Path.cwd() == Path(__file__).parent, Path.home() == Path("/tmp"))
out = Path("out/deep")
out.mkdir(parents=True)
with open(out / "rows.csv", "w", newline="") as file:
    csv.writer(file).writerows([["a", 1], ["b", 2]])
print((out / "rows.csv").read_bytes(), sum(1 for _ in Path("out").rglob("*")))
with sqlite3.connect(out / "shop.db") as base:
    base.execute("create table item (name text, price int)")
    base.executemany("insert into item values (?, ?)", [("tea", 3), ("milk", 1)])
    print(base.execute("select sum(price) from item").fetchone())
with tempfile.NamedTemporaryFile("w+", suffix=".txt") as file:
    file.write("kept for a moment")
    file.seek(0)
    print(file.read())
shutil.rmtree("out")
print(os.path.exists("out"))
try:
    with open("big.bin", "wb") as file:
        file.truncate(1 << 30)
except OSError as error:
    print("too big:", error.strerror)
open("missing.txt")

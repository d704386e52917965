class Größe:
    π = 3

    def fläche(self, r):
        return self.π * r ** 2


def сложить(а, б):
    сумма = а + б
    return сумма


ﬁnal = сложить(2, 3)
größe = Größe()
print(final, größe.fläche(ﬁnal), "ﬁnal" in globals(), "final" in globals())
名前 = {"ключ": "значение", "🔑": "🚪"}
print(名前["ключ"], 名前["🔑"], f"{ﬁnal:>4}|", "e\u0301" == "é")
名前["nicht da"]

from farm import Barn, animals
from farm.tools.scale import weigh

barn = Barn([animals.Cow("Ida"), animals.Cow("Uta")])
print(barn.count(), weigh(barn.herd[1]))
print(weigh.__module__, animals.__package__, animals.__name__)
import farm.tools.broken

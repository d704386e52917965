"""Runs modules of CPython's own test suite as programs, plainly and traced in full, and compares what each test says.

    stdlib.py OUT [MODULE...]

Needs a Python with the ``test`` package (Debian's ``libpython3.13-testsuite``) beside the tracer. Without
names it runs ``MODULES``. Differences go to ``OUT/stdlib.json``.
"""

from __future__ import annotations

import base64
import json
import pathlib
import re
import sys
import test
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import drive

MODULES = """
test_abc test_array test_ast.test_ast test_asyncgen test_augassign test_base64 test_baseexception test_bigmem test_binascii test_binop test_bisect
test_bool test_bufio test_bytes test_calendar test_call test_class test_cmath test_code test_collections
test_colorsys test_compare test_complex test_contains test_context test_contextlib test_contextlib_async test_copy test_copyreg test_coroutines
test_csv test_dataclasses test_datetime test_decimal test_decorators test_defaultdict test_deque test_dict test_dictcomps test_dictviews
test_difflib test_dynamic test_dynamicclassattribute test_enum test_enumerate test_errno test_except_star test_exception_group
test_exception_hierarchy test_exception_variations test_exceptions test_extcall test_finalization test_float test_flufl test_format test_fractions test_frame test_frozen test_fstring
test_funcattrs test_functools test_future_stmt.test_future gc test_generator_stop test_generators test_genericalias test_genericclass test_genexps
test_getopt test_global test_grammar test_graphlib test_hash test_hashlib test_heapq test_hmac test_html test_index test_int test_int_literal test_io
test_isinstance test_iter test_iterlen test_itertools test_json test_keyword test_keywordonlyarg test_linecache test_list test_listcomps test_long test_longexp
test_lltrace test_math test_memoryio test_memoryview test_metaclass test_module.test_module test_named_expressions test_numeric_tower test_opcodes test_operator
test_ordered_dict test_patma test_pep646_syntax test_pickle test_pow test_pprint test_print test_property test_queue test_raise test_random test_range test_re test_reprlib
test_richcmp test_scope test_set test_setcomps test_shelve test_slice test_sort test_stat test_statistics test_string test_strtod test_struct test_structseq
test_subclassinit test_sundry test_super test_syntax test_textwrap test_threading_local test_thread test_time test_timeit test_traceback test_tuple
test_type_aliases test_type_annotations test_type_params test_typechecks test_types test_typing test_ucn test_unary test_unpack test_unpack_ex test_userdict
test_userlist test_userstring test_uuid test_weakref test_weakset test_with test_yield_from test_zipfile._path.test_path
""".split()
SECONDS = 240
CHANGING = re.compile(r"0x[0-9a-f]+|\d+\.\d+s|in \d+\.\d+|pid=\d+|\d{5,}|[0-9a-f]{8}-[0-9a-f-]+")


def said(outcome: dict[str, Any]) -> dict[str, str]:
    """Return the verdict of each test, as ``unittest -v`` prints it, and how the run ended."""
    text = base64.b64decode(outcome["stderr"]).decode("utf-8", "replace")
    verdicts = {"": f"exit {outcome['returncode']}"}
    for match in re.finditer(r"^(test\w* \([\w.<>]+\)).*?\.\.\. (?:.*\n)??.*?\b(ok|FAIL|ERROR|skipped|expected failure|unexpected success)", text, re.M | re.S):
        verdicts[match[1]] = match[2]
    for match in re.finditer(r"^(?:Ran \d+ tests?|OK.*|FAILED.*)", text, re.M):
        verdicts[match[0].split()[0]] = CHANGING.sub("", match[0])
    return verdicts


def main() -> None:
    """Run the modules of the command line, or all."""
    out = pathlib.Path(sys.argv[1])
    root = pathlib.Path(test.__file__).parent
    results: dict[str, Any] = {}
    for name in sys.argv[2:] or MODULES:
        path = root / (name.replace(".", "/") + ".py")
        if not path.exists():
            continue
        job = {"files": {"main.py": path.read_text()}, "args": ["-v"], "seconds": SECONDS, "open_files": 256, "cpu_s": 600, "events": 100_000, "trace_bytes": 64 << 20}
        plain = said(drive.run_plain(job))
        if "Ran" not in plain:
            results[name] = {"left out": plain[""]}
            continue
        traced = said(drive.run_traced(job, False))
        differing = {key: [plain.get(key), traced.get(key)] for key in {*plain, *traced} if plain.get(key) != traced.get(key)}
        results[name] = {"tests": plain["Ran"], "differing": differing}
        print(name, plain["Ran"], plain[""], differing or "same", flush=True)
    same = [name for name, result in results.items() if result.get("differing") == {}]
    print(len(same), "modules of", len(results), "the same")
    (out / "stdlib.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main()

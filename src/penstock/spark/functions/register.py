"""Registers users' Python functions in Spark's sessions by name, or says why one cannot be used.

A name belongs to one code for ever, so what one session has under it, every other may have too. Sessions that Spark
clones for its streaming queries know the functions of that moment only: :func:`provide` adds what came later.

A call becomes ``IF(f.error IS NULL, f.value, raise_error(f.error))``, built when Spark resolves the name: guards,
attempts and pauses then treat a function of Python like any other expression. Arguments are attempted, because Spark
evaluates them beside the expression too; where one failed, it is evaluated again where the value is used.
"""

from __future__ import annotations

import base64
import pickle
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import ModuleType
from typing import Any, Final

from pyspark import cloudpickle as _cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from penstock.errors import EnvironmentProblem, Unsupported
from penstock.language.functions.fingerprint import is_own
from penstock.language.functions.python_functions import VERSION
from penstock.model.function import Function, PythonCode
from penstock.spark.functions import child_processes, udaf_worker, udf_worker, users_code
from penstock.spark.functions.measured_costs import measured
from penstock.spark.functions.udaf_worker import UdafWorker
from penstock.spark.functions.udf_worker import UdfWorker
from penstock.spark.job.attempt import always_true
from penstock.spark.session.java_classes import java_class
from penstock.spark.session.own_session import type_in
from penstock.spark.sources.unreadable import messages_of

cloudpickle: Any = _cloudpickle  # it has no types
MAX_PICKLED: Final = 8 << 20  # bytes
SESSIONS: Final = 256  # whose functions are remembered; one that is forgotten gets them again

# Of what Spark says when a worker has ended, or was ended because nothing came from it for long.
WORKER_ENDED: Final = ("Python worker exited unexpectedly", "Python worker process terminated due to idle timeout")
IDLE: Final = "spark.sql.execution.pyspark.udf.idleTimeoutSeconds"
# A worker from which nothing comes for so long is ended; its functions then run apart, with a limit for each call.
WATCHED: Final[dict[str, str]] = {
    IDLE: f"{child_processes.LIMIT_S:g}s",
    "spark.sql.execution.pyspark.udf.killOnIdleTimeout": "true",
}


@dataclass(slots=True)
class _Provided:
    """What a session was given: functions by pinned name; ``apart``: they run in children of the workers."""

    functions: dict[str, Function] = field(default_factory=dict)
    apart: bool = False


_PROVIDED: OrderedDict[str, _Provided] = OrderedDict()  # by session
_LOCK = threading.RLock()


# -- code ----------------------------------------------------------------------------------------------------------


def with_code(function: Function, called: Callable[..., Any] | tuple[Any, ...]) -> Function:
    """Add the pickled code; functions of the program's own files are carried along, installed ones are named."""
    assert function.python is not None
    try:
        with ExitStack() as stack:
            for part in called if isinstance(called, tuple) else (called,):
                module = getattr(part, "__module__", None) or ""
                own = sys.modules.get(module) if is_own(module) and module != "__main__" else None
                stack.enter_context(_by_value(own))
            pickled = cloudpickle.dumps(called)
        pickle.loads(pickled)
    except Exception as error:  # whatever the objects it refers to raise
        what = f'function "{function.name}" cannot be stored: {" ".join(str(error).split()) or type(error).__name__}'
        hint = "Let it make what it needs when it is called, instead of referring to open files, locks or sessions."
        raise Unsupported(what, hint=hint) from None
    if len(pickled) > MAX_PICKLED:
        what = (
            f'function "{function.name}" has {len(pickled):,} bytes with all it refers to, and may have {MAX_PICKLED:,}'
        )
        raise Unsupported(what, hint="Let it read large data from a file, or join a table instead.")
    return replace(function, python=replace(function.python, pickled=base64.b64encode(pickled).decode()))


@contextmanager
def _by_value(module: ModuleType | None) -> Iterator[None]:
    """Pickle the functions of a module by value for a while."""
    with _LOCK:
        if module is None or module.__name__ in cloudpickle.list_registry_pickle_by_value():
            yield
            return
        cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            cloudpickle.unregister_pickle_by_value(module)


def unusable(function: Function) -> str | None:
    """Say why the code of a function cannot be used here, if it cannot."""
    code = function.python
    if code is None:
        return None
    if code.version != VERSION:
        return f"it was registered under Python {code.version}, but this is {VERSION}"
    return _unreadable(code)


@lru_cache(maxsize=1_000)
def _unreadable(code: PythonCode) -> str | None:
    """Say why code cannot be unpickled, if it cannot."""
    try:
        pickle.loads(base64.b64decode(code.pickled))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def require_usable(functions: Iterable[Function]) -> None:
    """Refuse functions whose code cannot be used here."""
    for function in functions:
        if (reason := unusable(function)) is not None:
            what = f'function "{function.name}" cannot be loaded: {reason}'
            raise EnvironmentProblem(what, hint=f'Register it again: engine.create_function("{function.name}", …).')


def continued(function: Function, known: Function | None) -> tuple[Function, bool]:
    """Let a function go on under the id of one of its name that cannot be loaded any more; tell whether it does."""
    if known is None or known.python is None or function.python is None or unusable(known) is None:
        return function, False
    if (known.parameters, known.returns) != (function.parameters, function.returns):
        return function, False
    return replace(function, python=replace(function.python, id=known.python.id)), True


# -- sessions ------------------------------------------------------------------------------------------------------


def check_types(function: Function) -> None:
    """Refuse types that Arrow does not carry."""
    for type_ in [*(p.type for p in function.parameters), function.returns or ""]:
        try:
            to_arrow_type(T.DataType.fromDDL(type_), timezone="UTC")
        except Exception:
            what = f'function "{function.name}" cannot take or return {type_}'
            raise Unsupported(what, hint="Take it apart in SQL, and hand over numbers, strings or times.") from None


def provide(session: SparkSession, functions: Sequence[Function]) -> None:
    """Give a session the Python functions that it does not have yet."""
    if not functions:
        return
    with _LOCK:
        has = _PROVIDED.setdefault(_name(session), _Provided())
        while len(_PROVIDED) > SESSIONS:
            _PROVIDED.popitem(last=False)
        for function in functions:
            assert function.python is not None
            known = has.functions.get(function.pinned)
            if known is None or known.python is None or known.python.digest != function.python.digest:
                _register(session, function, apart=has.apart)
                has.functions[function.pinned] = function


def isolate(session: SparkSession, error: Exception) -> bool:
    """If an error says that a worker has ended, let a session's functions run in children of its workers from now on.

    Whatever ends a child is charged to the rows it was at. False: the error is another one, or they did so before.
    """
    if not any(words in message for message in messages_of(error) for words in WORKER_ENDED):
        return False
    with _LOCK:
        has = _PROVIDED.get(_name(session))
        if has is None or has.apart or not has.functions:
            return False
        has.apart = True
        for function in has.functions.values():
            _register(session, function, apart=True)
        session.conf.set(IDLE, "0")  # each call has its limit
    return True


def _name(session: SparkSession) -> str:
    """Return what tells a session from others."""
    handle: Any = session._jsparkSession
    return str(handle.sessionUUID())


def _register(session: SparkSession, function: Function, *, apart: bool) -> None:
    """Let a session find a function, or what makes an aggregate's states, by the name of its very code."""
    code = function.python
    assert code is not None
    if code.aggregates:
        lifting = UdafWorker(function.name, base64.b64decode(code.pickled), code.version, apart)
        arrow = PythonEvalType.SQL_SCALAR_ARROW_UDF
        with _by_value(udaf_worker), _by_value(users_code), _by_value(child_processes):
            made: Any = UserDefinedFunction(lambda lists: lifting(lists), T.BinaryType(), function.name, arrow)
            session.udf.register(function.pinned, made)
            made._judf  # noqa: B018 - pickles the code while it is carried along
        return
    handle: Any = session._jsparkSession
    registry = handle.sessionState().functionRegistry()
    registry.createOrReplaceTempFunction(function.pinned, _call(session, function, apart=apart), "python_udf")


def _call(session: SparkSession, function: Function, *, apart: bool) -> Any:
    """Make what Spark calls when it resolves the function's name, for which it has no public way."""
    context: Any = session.sparkContext
    array = context._gateway.new_array(context._jvm.java.lang.Object, 2)
    with _by_value(udf_worker), _by_value(users_code), _by_value(child_processes):
        array[0] = _in_spark(session, function, apart=apart)._judf
    array[1] = always_true()
    return java_class(context._jvm, "Call").getConstructors()[0].newInstance(array)


def _in_spark(session: SparkSession, function: Function, *, apart: bool) -> Any:
    """Make a Python function of Spark's that returns value and error."""
    code, returns = function.python, type_in(session, function.returns or "")
    assert code is not None
    pickled = base64.b64decode(code.pickled)
    result = to_arrow_type(returns, timezone="UTC")
    caller = UdfWorker(function.name, pickled, code.version, code.vectorised, result, apart)
    struct = T.StructType([T.StructField("value", returns), T.StructField("error", T.StringType())])
    arrow = PythonEvalType.SQL_SCALAR_ARROW_UDF  # needs no pandas
    called = (lambda *arguments: caller(*arguments)) if apart else measured(session, function.pinned, caller)
    return UserDefinedFunction(called, struct, function.name, arrow)

"""A person's own Java classes in place of MirrorMaker's: loaded in a JVM of theirs, configured as MirrorMaker does, and
asked by py4j, once for each name. Called by `policy.own` and `config.providers`.

The contracts are those of `connect-mirror-client`, `connect-mirror` and `kafka-clients`, whose jars must be where the
classes are.
"""

from collections.abc import Mapping
from typing import Any, Final

from sparkmirror.errors import EnvironmentProblem, SparkMirrorError
from sparkmirror.plugins import ClassPath, forget, gateway

_MIRROR: Final = "org.apache.kafka.connect.mirror"
POLICY: Final = f"{_MIRROR}.ReplicationPolicy"
TOPIC_FILTER: Final = f"{_MIRROR}.TopicFilter"
GROUP_FILTER: Final = f"{_MIRROR}.GroupFilter"
CONFIG_FILTER: Final = f"{_MIRROR}.ConfigPropertyFilter"
PROVIDER: Final = "org.apache.kafka.common.config.provider.ConfigProvider"
_CONFIGURABLE: Final = "org.apache.kafka.common.Configurable"
_WHERE: Final = "its jar, and Kafka's `libs` beside it, must be in `plugin.path`, --jars or CLASSPATH"
_OR_PYTHON: Final = "a class in Python is named `module:Class` (docs/policies.md)"


class JavaInstance:
    """One object of a Java class. Made again, in another JVM, when its own is gone; answers are kept."""

    def __init__(self, name: str, interface: str, properties: Mapping[str, str], where: ClassPath) -> None:
        """Raises ValueError with a phrase about `name`."""
        self._name = name
        self._interface = interface
        self._properties = dict(properties)
        self._where = where
        self._answers: dict[tuple[str, ...], Any] = {}
        self._gateway, self._object = self._made()

    def ask(self, method: str, *names: str) -> Any:
        """The answer of a method of strings. Raises SparkMirrorError with what the class threw."""
        asked = (method, *names)
        if asked not in self._answers:
            self._answers[asked] = self._call(method, *names)
        return self._answers[asked]

    def text(self, method: str, *names: str) -> str:
        """As `ask`, where null is no answer."""
        if (answer := self.ask(method, *names)) is None:
            raise SparkMirrorError(f"{self._name}.{method}({', '.join(names)}) answers null, where a name is needed.")
        return str(answer)

    def provided(self, path: str, key: str) -> str | None:
        """Of a config provider: what it has under `path` for `key`. Raises SparkMirrorError."""
        return _text_or_none(self._call("get", path, {key}).data().get(key))

    def _call(self, method: str, *arguments: Any) -> Any:
        from py4j.protocol import Py4JError, Py4JJavaError

        for attempt in (1, 2):
            try:
                return getattr(self._object, method)(*arguments)
            except Py4JJavaError as thrown:
                asked = f"{self._name}.{method}({', '.join(map(str, arguments))})"
                raise SparkMirrorError(f"{asked} threw {_thrown(thrown)}.") from None
            except (Py4JError, OSError) as problem:
                if attempt == 2 or "Trace:" in str(problem):  # Java has answered: it lacks the method
                    raise SparkMirrorError(f"{self._name}.{method} cannot be asked: {_first_line(problem)}") from None
                self._make_again()
        raise AssertionError

    def _make_again(self) -> None:
        forget(self._where, self._gateway)
        try:
            self._gateway, self._object = self._made()
        except ValueError as problem:
            raise SparkMirrorError(f"{self._name} {problem}.") from None

    def _made(self) -> tuple[Any, Any]:
        from py4j.protocol import Py4JError, Py4JJavaError

        if not self._where.places:
            raise ValueError(f"names a Java class, and nothing says where it is: {_WHERE}; {_OR_PYTHON}")
        try:
            found = gateway(self._where)
            return found, self._configured(found)
        except EnvironmentProblem as problem:
            raise ValueError(f"names a Java class that cannot be loaded: {problem}") from None
        except Py4JJavaError as thrown:
            raise ValueError(self._complaint(thrown)) from None
        except (Py4JError, OSError) as problem:
            raise ValueError(f"names a Java class that cannot be asked: {problem}") from None

    def _configured(self, found: Any) -> Any:
        jvm, named = found.jvm, found.jvm.Class.forName
        made = _new(found, named(self._name))
        if not named(self._interface).isInstance(made):
            raise ValueError(f"names a Java class that does not implement {self._interface}")
        if named(_CONFIGURABLE).isInstance(made):
            made.configure(jvm.java.util.HashMap(self._properties))
        return made

    def _complaint(self, thrown: Any) -> str:
        kind, message = _kind_and_message(thrown)
        places = ", ".join(self._where.places)
        gone = f" ({', '.join(self._where.missing)} is not there)" if self._where.missing else ""
        if kind == "java.lang.ClassNotFoundException" and message == self._name:
            return f"names a Java class that is not in {places}{gone}: {_WHERE}; {_OR_PYTHON}"
        if kind in ("java.lang.NoClassDefFoundError", "java.lang.ClassNotFoundException"):
            lacking = message.replace("/", ".")
            return f"names a Java class that needs {lacking}, which is not in {places}{gone}: {_WHERE}"
        return f"cannot be used: it threw {_thrown(thrown)}"


class JavaPolicy:
    """A `ReplicationPolicy` of Java."""

    def __init__(self, instance: JavaInstance) -> None:
        self._java = instance

    def format_remote_topic(self, source: str, topic: str) -> str:
        return self._java.text("formatRemoteTopic", source, topic)

    def topic_source(self, topic: str) -> str | None:
        return _text_or_none(self._java.ask("topicSource", topic))

    def upstream_topic(self, topic: str) -> str | None:
        return _text_or_none(self._java.ask("upstreamTopic", topic))

    def original_topic(self, topic: str) -> str:
        return self._java.text("originalTopic", topic)

    def is_internal_topic(self, topic: str) -> bool:
        return bool(self._java.ask("isInternalTopic", topic))

    def is_heartbeats_topic(self, topic: str) -> bool:
        return bool(self._java.ask("isHeartbeatsTopic", topic))

    def is_checkpoints_topic(self, topic: str) -> bool:
        return bool(self._java.ask("isCheckpointsTopic", topic))

    def heartbeats_topic(self) -> str:
        return self._java.text("heartbeatsTopic")

    def offset_syncs_topic(self, alias: str) -> str:
        return self._java.text("offsetSyncsTopic", alias)

    def checkpoints_topic(self, source: str) -> str:
        return self._java.text("checkpointsTopic", source)


class JavaFilter:
    """A `TopicFilter`, `GroupFilter` or `ConfigPropertyFilter` of Java."""

    def __init__(self, instance: JavaInstance) -> None:
        self._java = instance

    def should_replicate_topic(self, topic: str) -> bool:
        return bool(self._java.ask("shouldReplicateTopic", topic))

    def should_replicate_group(self, group: str) -> bool:
        return bool(self._java.ask("shouldReplicateGroup", group))

    def should_replicate_config_property(self, name: str) -> bool:
        return bool(self._java.ask("shouldReplicateConfigProperty", name))

    def should_replicate_source_default(self, name: str) -> bool:
        return bool(self._java.ask("shouldReplicateSourceDefault", name))


def _first_line(problem: Exception) -> str:
    lines = str(problem).splitlines()
    return next((line for line in lines if "does not exist" in line), lines[0] if lines else type(problem).__name__)


def _new(found: Any, of: Any) -> Any:
    none = found.new_array(found.jvm.Class, 0)
    return of.getDeclaredConstructor(none).newInstance(found.new_array(found.jvm.Object, 0))


def _kind_and_message(thrown: Any) -> tuple[str, str]:
    """What was thrown at first: reflection wraps it."""
    cause = thrown.java_exception
    while cause.getClass().getName() == "java.lang.reflect.InvocationTargetException":
        cause = cause.getCause()
    return str(cause.getClass().getName()), str(cause.getMessage() or "")


def _thrown(thrown: Any) -> str:
    kind, message = _kind_and_message(thrown)
    return ": ".join(filter(None, (kind, " ".join(message.split()))))


def _text_or_none(answer: Any) -> str | None:
    return None if answer is None else str(answer)

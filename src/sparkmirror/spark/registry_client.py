"""A client of schema registries: looks schemas up on the source's side, and registers them on the target's.

Called by `spark.schema_ids`, in Python workers. Source:
https://docs.confluent.io/platform/current/schema-registry/develop/api.html
"""

import base64
import json
import urllib.error
import urllib.request
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from sparkmirror.config.flow.schema_registries import Registry
from sparkmirror.errors import RegistryProblem

_ANSWER_SECONDS_MAX: Final = 15.0
_DEPTH_MAX: Final = 32
_NOT_FOUND: Final = (40401, 40402, 40403)
"""Codes of an answer with status 404: no such subject, version or schema. Any other one is not a registry's."""
_JSON: Final = "application/vnd.schemaregistry.v1+json"

Schema = dict[str, Any]
"""What a registry says of a schema: `schema`, `schemaType` (absent: Avro), `references`, `metadata` and `ruleSet`, as
far as it has them."""


class RegistryRefusal(RegistryProblem):
    """This schema cannot be registered under this subject. Another one may be. `is_awaited` where a registry may take
    the very same later, when somebody has done something about it."""

    def __init__(self, message: str, hint: str = "", *, is_awaited: bool = False) -> None:
        super().__init__(message, hint)
        self.is_awaited = is_awaited


class SchemaLacking(RegistryRefusal):
    """The source's registry does not have all that is to be known of the schema."""


class RegistryClient:
    """One registry. Each call raises RegistryProblem where it does not answer, or refuses."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def schema_of(self, number: int) -> Schema | None:
        """The schema that has the id; None where there is none."""
        found: Schema | None = self._ask("GET", f"/schemas/ids/{number}")
        return found

    def schema_by_guid(self, guid: str) -> Schema | None:
        """The schema that has the GUID; None where there is none."""
        found: Schema | None = self._ask("GET", f"/schemas/guids/{guid}")
        return found

    def ids_of_guid(self, guid: str) -> list[int]:
        """The ids of the schema that has the GUID."""
        return [int(one["id"]) for one in self._ask("GET", f"/schemas/guids/{guid}/ids") or ()]

    def guid_of(self, number: int) -> str:
        """The GUID of the schema that has the id. Raises RegistryProblem where the registry has none."""
        guid = (self.schema_of(number) or {}).get("guid")
        if guid is None:
            raise RegistryProblem(
                f"The schema registry {self._registry.url} has no GUID of schema {number}: headers cannot name it."
            )
        return str(guid)

    def subjects_of(self, number: int) -> list[str]:
        """The subjects under which it is registered."""
        return sorted(self._ask("GET", f"/schemas/ids/{number}/subjects") or ())

    def version(self, subject: str, version: int | str) -> Schema:
        """A version of a subject, which another schema refers to; `latest` for the newest."""
        found = self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions/{version}")
        if found is None:
            raise SchemaLacking(f"The schema registry {self._registry.url} has no version {version} of {subject}.")
        return _content(found)

    def register(self, subject: str, schema: Schema) -> int:
        """The id of the schema, which is registered under the subject if it is not yet."""
        return int(self._sent("POST", f"/subjects/{quote(subject, safe='')}/versions", schema)["id"])

    def version_of(self, subject: str, schema: Schema) -> int:
        """The version of the subject that the schema is."""
        return int(self._sent("POST", f"/subjects/{quote(subject, safe='')}", schema)["version"])

    def _sent(self, method: str, path: str, body: Schema) -> Any:
        answer = self._ask(method, path, body)
        if answer is None:
            raise RegistryProblem(f"The schema registry {self._registry.url} has no {path}.")
        return answer

    def _ask(self, method: str, path: str, body: Schema | None = None) -> Any:
        """The answer's JSON; None for what is not found."""
        headers = {"Accept": _JSON, "Content-Type": _JSON}
        if self._registry.user_info:
            headers["Authorization"] = "Basic " + base64.b64encode(self._registry.user_info.encode()).decode()
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._registry.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS_MAX) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as problem:
            said = problem.read(1000).decode(errors="replace").strip()
            if _is_not_found(problem.code, said):
                return None
            what = f"{method} {path} with status {problem.code}: {said}"
            message = f"The schema registry {self._registry.url} refuses {what}"
            if body is None or problem.code not in _REFUSING | _AWAITED:
                raise RegistryProblem(message, _hint(problem.code)) from None
            raise RegistryRefusal(message, _hint(problem.code), is_awaited=problem.code in _AWAITED) from None
        except (OSError, ValueError) as problem:
            raise RegistryProblem(
                f"The schema registry {self._registry.url} does not answer: {problem}", _AWAY
            ) from None


_AWAY: Final = "see that it runs and that every machine with tasks reaches it; records wait meanwhile"
_HINTS: Final = {
    400: "see that `transforms.schemas.<side>.url` is right, and that the subject is one",
    401: "write `transforms.schemas.<side>.user.info = name:password`",
    403: "give the login the right to read, and on the target's side to register schemas",
    404: "this is no answer of a registry: see that `transforms.schemas.<side>.url` has the whole address",
    409: "register the schema by hand, set the subject's compatibility otherwise, or use another subject",
    422: "the target's registry does not take this schema: its message says why",
}


_REFUSING: Final = frozenset({HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY})
"""What a registry answers that does not take a schema or a subject."""
_AWAITED: Final = frozenset({
    HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.REQUEST_URI_TOO_LONG,
})  # fmt: skip
"""What may be about this schema and subject alone, and need not: nobody answers so whose address and rights are right
for all."""


def _hint(status: int) -> str:
    return _HINTS.get(status, _AWAY)


def _is_not_found(status: int, said: str) -> bool:
    """Whether the registry says that it has no such thing. An answer of something else, such as a proxy, says nothing
    about schemas: taken for one, values would go out with the ids of the source."""
    if status != HTTPStatus.NOT_FOUND:
        return False
    try:
        return json.loads(said).get("error_code") in _NOT_FOUND
    except (ValueError, AttributeError):
        return False


_CONTENT: Final = ("schema", "schemaType", "references", "metadata", "ruleSet")
"""What makes a schema the same, and its GUID."""


def _content(found: Schema) -> Schema:
    return {name: found[name] for name in _CONTENT if found.get(name)}


def carry_over(source: RegistryClient, target: RegistryClient, schema: Schema, subject: str, depth: int = 0) -> Schema:
    """Register `schema`, which the source's registry has, with the target's, and before it all that it refers to, under
    the subjects that these have. Gives it as the target has it, with its `id`. Raises RegistryProblem."""
    if depth > _DEPTH_MAX:
        raise RegistryRefusal(f"The schema of {subject} refers to others more than {_DEPTH_MAX} deep.")
    own = _content(schema)
    references = []
    for one in own.get("references", ()):
        referred = carry_over(source, target, source.version(one["subject"], one["version"]), one["subject"], depth + 1)
        found = {name: value for name, value in referred.items() if name != "id"}
        references.append({**one, "version": target.version_of(one["subject"], found)})
    if references:
        own["references"] = references
    return own | {"id": target.register(subject, own)}


def texts_referred(source: RegistryClient, schema: Schema, depth: int = 0) -> tuple[str, ...]:
    """The texts of all schemas that `schema` refers to, each before what refers to it. Raises RegistryProblem."""
    if depth > _DEPTH_MAX:
        raise SchemaLacking(f"A schema refers to others more than {_DEPTH_MAX} deep.")
    found: dict[str, None] = {}
    for one in schema.get("references", ()):
        referred = source.version(one["subject"], one["version"])
        found |= dict.fromkeys((*texts_referred(source, referred, depth + 1), str(referred["schema"])))
    return tuple(found)

"""A client of schema registries: looks schemas up on the source's side, and registers them on the target's.

Called by `spark.schema_ids`, in Python workers. Source:
https://docs.confluent.io/platform/current/schema-registry/develop/api.html
"""

import base64
import json
import urllib.error
import urllib.request
from typing import Any, Final
from urllib.parse import quote

from sparkmirror.config.flow.schema_registries import Registry
from sparkmirror.errors import RegistryProblem

_ANSWER_SECONDS_MAX: Final = 15.0
_DEPTH_MAX: Final = 32
_NOT_FOUND: Final = 404
_JSON: Final = "application/vnd.schemaregistry.v1+json"

Schema = dict[str, Any]
"""What a registry says of a schema: `schema`, `schemaType` (absent: Avro) and `references`, as far as it has them."""


class RegistryClient:
    """One registry. Each call raises RegistryProblem where it does not answer, or refuses."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def schema_of(self, number: int) -> Schema | None:
        """The schema that has the id; None where there is none."""
        found: Schema | None = self._ask("GET", f"/schemas/ids/{number}")
        return found

    def subjects_of(self, number: int) -> list[str]:
        """The subjects under which it is registered."""
        return sorted(self._ask("GET", f"/schemas/ids/{number}/subjects") or ())

    def version(self, subject: str, version: int) -> Schema:
        """A version of a subject, which another schema refers to."""
        found = self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions/{version}")
        if found is None:
            raise RegistryProblem(f"The schema registry {self._registry.url} has no version {version} of {subject}.")
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
            if problem.code == _NOT_FOUND:
                return None
            said = problem.read(1000).decode(errors="replace").strip()
            what = f"{method} {path} with status {problem.code}: {said}"
            raise RegistryProblem(f"The schema registry {self._registry.url} refuses {what}") from None
        except (OSError, ValueError) as problem:
            raise RegistryProblem(f"The schema registry {self._registry.url} does not answer: {problem}") from None


def _content(found: Schema) -> Schema:
    return {name: found[name] for name in ("schema", "schemaType", "references") if found.get(name)}


def carry_over(source: RegistryClient, target: RegistryClient, schema: Schema, subject: str, depth: int = 0) -> Schema:
    """Register `schema`, which the source's registry has, with the target's, and before it all that it refers to, under
    the subjects that these have. Gives it as the target has it, with its `id`. Raises RegistryProblem."""
    if depth > _DEPTH_MAX:
        raise RegistryProblem(f"The schema of {subject} refers to others more than {_DEPTH_MAX} deep.")
    own = _content(schema)
    references = []
    for one in own.get("references", ()):
        referred = carry_over(source, target, source.version(one["subject"], one["version"]), one["subject"], depth + 1)
        found = {name: value for name, value in referred.items() if name != "id"}
        references.append({**one, "version": target.version_of(one["subject"], found)})
    if references:
        own["references"] = references
    return own | {"id": target.register(subject, own)}

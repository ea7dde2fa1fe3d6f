"""Whether answers have the form that the OpenAPI document describes."""

from types import NoneType

from tdlg.serve.schema import document

DOCUMENT = document()


def resolved(schema):
    """A schema, a response or a parameter in place of a reference to it."""
    if "$ref" not in schema:
        return schema
    found = DOCUMENT
    for part in schema["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return found


TYPES = {
    "object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool, "null": NoneType,
}  # fmt: skip


def conforms(value, schema):
    """Whether a value has the form of a schema, as far as the document uses schemas."""
    schema = resolved(schema)
    if "anyOf" in schema:
        return any(conforms(value, one) for one in schema["anyOf"])
    if "enum" in schema and value not in schema["enum"]:
        return False
    kind = schema.get("type")
    if kind and (not isinstance(value, TYPES[kind]) or isinstance(value, bool) != (kind == "boolean")):
        return False
    if isinstance(value, dict):
        known, other = schema.get("properties", {}), schema.get("additionalProperties", {})
        if not set(schema.get("required", ())) <= set(value) or (other is False and not set(value) <= set(known)):
            return False
        return all(
            conforms(item, known.get(key, other if isinstance(other, dict) else {})) for key, item in value.items()
        )
    return not isinstance(value, list) or all(conforms(item, schema.get("items", {})) for item in value)


def is_described(method, address, answer):
    """Whether the document has the status of an answer from this address, and the form of its content."""
    responses = DOCUMENT["paths"][address.partition("?")[0]][method.lower()]["responses"]
    if str(answer.status) not in responses:
        return False
    content = resolved(responses[str(answer.status)])["content"]
    media = answer.headers["content-type"].partition(";")[0]
    return media in content and (answer.json is None or conforms(answer.json, content[media]["schema"]))

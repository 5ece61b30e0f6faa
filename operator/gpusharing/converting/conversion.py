"""The conversion of several files at once: one may hold what another one refers to."""

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ruamel.yaml.comments import CommentedMap, CommentedSeq

from gpusharing.converting import classic, cluster_policy, config_maps, documents, dra, parameters, pods
from gpusharing.converting.cluster_policy import Settings
from gpusharing.converting.documents import Document
from gpusharing.converting.fields import Field, Source
from gpusharing.converting.policies import Registry, Written
from gpusharing.converting.remarks import NotConvertibleError, Remark

# What is read at all: a round trip costs seconds for a large file.
_CONCERNED: Final = re.compile(r"resource\.k8s\.io|resourceClaims|nvidia\.com|mig-configs|sharing")
_LIST: Final = ("v1", "List")
_CONFIG_MAP: Final = ("v1", "ConfigMap")
_NO_TYPE: Final = ("", "")


class File(NamedTuple):
    name: str
    text: str


class Conversion(NamedTuple):
    files: tuple[File, ...]
    """In the same order, each as it was or converted."""
    remarks: tuple[Remark, ...]


class _Read(NamedTuple):
    document: Document
    objects: tuple[Field, ...] = ()
    """The members of a list, or the document itself; none if it does not concern us, or cannot be read."""
    is_list: bool = False


def convert(files: Sequence[File]) -> Conversion:
    remarks: list[Remark] = []
    read = [[_read(document, remarks) for document in documents.split(file.name, file.text)] for file in files]
    converter = _Converter(remarks)
    converter.convert([one for those in read for document in those for one in document.objects])
    converted = tuple(
        File(file.name, _joined([converter.text(one) for one in those]))
        for file, those in zip(files, read, strict=True)
    )
    return Conversion(converted, tuple(sorted(remarks, key=lambda remark: (remark.file, remark.line))))


def _read(document: Document, remarks: list[Remark]) -> _Read:
    if document.is_empty or not _CONCERNED.search(document.body):
        return _Read(document)
    source = Source(file=document.file, first_line=document.line, text=document.body, note=remarks.append)
    try:
        field = Field.of_document(documents.load(document), source)
        if field.type == _LIST:
            return _Read(document, tuple(field.items("items")), is_list=True)
        return _Read(document, (field,))
    except NotConvertibleError as error:
        remarks.append(error.remark)
        return _Read(document)


def _joined(texts: Sequence[str]) -> str:
    joined = ""
    for text in filter(None, texts):
        joined += text if not joined or joined.endswith("\n") else f"\n{text}"
    return joined


class _Converter:
    def __init__(self, remarks: list[Remark]) -> None:
        self._remarks = remarks
        self._registry = Registry()
        self._parameters = parameters.Known()
        self._settings = Settings()
        self._config_maps: set[str] = set()
        """Those that have become policies."""
        self._written: dict[int, list[Written]] = {}
        """By the object that it comes in place of."""
        self._failed: set[int] = set()

    def convert(self, objects: Sequence[Field]) -> None:
        cluster_policies = [one for one in objects if one.type == cluster_policy.TYPE]
        known = [one for one in objects if parameters.is_one(one)]
        referred_to = {id(one) for one in (*cluster_policies, *known)}
        self._attempt_each(known, self._learn_parameters)
        self._attempt_each(cluster_policies, self._learn_settings)
        self._attempt_each([one for one in objects if id(one) not in referred_to], self._convert)
        # Only now it is known what became of what refers to these.
        self._attempt_each(cluster_policies, self._convert_cluster_policy)
        self._attempt_each(known, self._drop_parameters)

    def text(self, read: _Read) -> str:
        """Of the document, converted or as it was."""
        ids = [id(one) for one in read.objects]
        if self._failed.intersection(ids) or self._written.keys().isdisjoint(ids):
            return read.document.text
        written = [one for field in read.objects for one in self._written.get(id(field), [Written(field.map)])]
        if not written:
            return ""
        is_new = len(written) != 1 or written[0].data is not read.objects[0].value
        if read.is_list or (len(written) > 1 and read.document.is_json):
            items = CommentedSeq(one.data for one in written)
            written = [Written(CommentedMap(apiVersion="v1", kind="List", items=items))]
        before = read.document.comments_before if is_new else ""
        texts = [one.comments + documents.dump(one.data, like=read.document) for one in written]
        return read.document.marker + read.document.with_its_line_ends(before + "---\n".join(texts))

    def _attempt_each(self, fields: Sequence[Field], step: Callable[[Field], list[Written] | None]) -> None:
        for field in fields:
            if id(field) in self._failed:
                continue
            try:
                written = step(field)
            except NotConvertibleError as error:
                self._failed.add(id(field))
                self._remarks.append(error.remark)
            else:
                if written is not None:
                    self._written[id(field)] = written

    def _learn_parameters(self, field: Field) -> None:
        self._parameters.add(field)

    def _learn_settings(self, field: Field) -> None:
        self._settings = self._settings.together_with(cluster_policy.settings_of(field))

    def _convert(self, field: Field) -> list[Written] | None:
        """None: it is of today already, or somebody else's."""
        version, kind = field.type
        if version in (*dra.VERSIONS, *parameters.CLASSIC):
            return self._convert_dra(field, version, kind)
        if version == dra.V1:
            return [Written(field.map)] if dra.renew_configs(field) else None
        if kind in pods.KINDS:
            return [Written(field.map)] if pods.renew(field) else None
        if field.type == _CONFIG_MAP:
            return self._convert_config_map(field)
        return config_maps.of_file(field, self._registry, self._settings) if field.type == _NO_TYPE else None

    def _convert_dra(self, field: Field, version: str, kind: str) -> list[Written] | None:
        if kind == dra.ONLY_ALPHA:
            return None
        if kind in dra.SCHEDULING:
            field.inform(f"{kind} was an object of the scheduler, does not exist any more, and is left out")
            return []
        if version in dra.VERSIONS:
            dra.to_v1(field)
        else:
            with self._parameters.used_if_converted():
                classic.to_v1(field, self._parameters)
        return [Written(field.map)]

    def _convert_config_map(self, field: Field) -> list[Written] | None:
        name = field.text_at("metadata", "name")
        written = config_maps.of_config_map(field, self._registry, self._settings)
        if written is not None:
            self._config_maps.add(name)
        return written

    def _convert_cluster_policy(self, field: Field) -> list[Written] | None:
        return [Written(field.map)] if cluster_policy.without_sharing(field, self._config_maps) else None

    def _drop_parameters(self, field: Field) -> list[Written] | None:
        if self._parameters.is_used(field):
            return []
        if not self._parameters.is_referred_to(field):
            field.warn("no claim or class in these files refers to it, and it is left unchanged", "delete it")
        return None

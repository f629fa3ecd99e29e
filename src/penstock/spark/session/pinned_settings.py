"""Lists which of Spark's SQL settings may change what a query means, and which may not.

Spark 4.3 has about 800 settings; all were read once, and ``tests/spark/test_meaning.py`` fails on one that no rule
here names. The engine's own session (``own_session.py``) keeps a given session's values of the free ones alone: all
others, those of a newer Spark included, get the value in :data:`VALUES` or Spark's default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

READ_THROUGH: Final = (4, 3)  # the version of Spark whose settings were read
PREFIX: Final = "spark.sql."


@dataclass(frozen=True, slots=True)
class SettingRule:
    """Some settings and why they are pinned, or free; names lack ``spark.sql.``, and a star ends a common beginning."""

    why: str
    names: tuple[str, ...]


# What is not named here is pinned to Spark's default.
VALUES: Final[Mapping[str, str]] = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # INT96 has no statistics and decodes slowly
}

# A static setting cannot be pinned, for it holds for all sessions; these would change meaning.
REFUSED: Final[Mapping[str, str]] = {
    "spark.sql.legacy.sessionInitWithConfigDefaults": (
        "Spark would run each stream in a session without the settings that fix what its queries mean."
    ),
}

PINNED: Final = (
    SettingRule(
        "what fails, and what becomes NULL", ("ansi.*", "assumeAnsiFalseIfNotPersisted.*", "storeAssignmentPolicy")
    ),
    SettingRule(
        "what a literal, a name or a word of SQL is",
        (
            "parser.*",
            "variable.substitute",
            "caseSensitive",
            "operatorPipeSyntaxEnabled",
            "timeTravel*",
            "allowNamedFunctionArguments",
            "scripting.*",
            "runSQLOnFiles",
            "cteRecursion*",
            "cteRelationDefMaxRows.*",
            "binByRelationOperator.*",
            "transposeMaxValues",
            "pivotMaxValues",
        ),
    ),
    SettingRule("what a time is, and its zone", ("session.timeZone", "timestamp*", "timeType.*", "datetime.*")),
    SettingRule("what Spark meant in older versions", ("legacy.*", "pyspark.legacy.*")),
    SettingRule(
        "the types of results: decimals, text, maps and binary values",
        (
            "decimalOperations.*",
            "charAsVarchar",
            "preserveCharVarcharTypeInfo",
            "readSideCharPadding",
            "collation.*",
            "runCollation*",
            "icu.*",
            "function.*",
            "mapKeyDedupPolicy",
            "mapZipWithUsesJavaCollections",
            "binaryOutputStyle",
            "chunkBase64String.*",
            "udt.*",
            "geospatial.*",
            "variant.*",
            "listagg.*",
            "enforceTypeCoercion*",
            "insertNestedTypeCoercion.*",
            "mergeNestedTypeCoercion.*",
        ),
    ),
    SettingRule(
        "which name an expression finds: columns, aliases, ordinals, functions",
        (
            "analyzer.*",
            "groupByAliases",
            "groupByOrdinal",
            "orderByOrdinal",
            "prioritizeOrdinalResolutionInSort.*",
            "lateralColumnAlias.*",
            "retainGroupColumns",
            "selfJoinAutoResolveAmbiguity",
            "crossJoin.enabled",
            "functionResolution.*",
            "stableDerivedColumnAlias.*",
            "useCommonExprIdForAlias",
            "alwaysInlineCommonExpr",
            "path.enabled",
            "defaultPath",
            "tvf.*",
            "view.*",
            "dropDuplicates.*",
            "lazySetOperatorOutput.*",
        ),
    ),
    SettingRule(
        "which part of an expression runs first: guards, and what is caught, rely on the rules of the optimizer",
        (
            "optimizer.*",
            "subexpressionElimination.*",
            "constraintPropagation.*",
            "optimizeNullAware*",
            "experimental.*",
            "orderingAwareLimitOffset",
            "planChangeValidation*",
            "lightweightPlanChangeValidation",
            "join.asofJoin.*",
            "join.sortMergeAsOfJoin.*",
            "join.splitStreamedSideJoinCondition",
            "python.filterPushdown.*",
        ),
    ),
    SettingRule(
        "what is read from a file, and which files are left out",
        (
            "parquet.*",
            "csv.*",
            "json.*",
            "jsonGenerator.*",
            "columnNameOfCorruptRecord",
            "files.*",
            "sources.partitionColumnTypeInference.*",
            "sources.validatePartitionColumns",
            "sources.useV1SourceList",
            "sources.partitionOverwriteMode",
            "streaming.schemaInference",
            "streaming.fileSource.schema.*",
            "streaming.fileStreamSink.ignoreMetadata",
            "streaming.disabledV2*",
            "streaming.offsetLog.*",
            "streaming.queryEvolution.*",
            "defaultColumn.*",
            "generatedColumn.*",
            "fileSource.*",
            "dataSource.*",
        ),
    ),
    SettingRule(
        "what values become on their way to Python and Arrow, and back",
        (
            "execution.arrow.useLargeVarTypes",
            "execution.arrow.enabled",
            "execution.arrow.fallback.*",
            "execution.arrow.pyspark.*",
            "execution.arrow.pythonUDF.*",
            "execution.pandas.*",
            "execution.pyspark.binaryAsBytes",
            "execution.pythonUDF.*",
            "execution.pythonUDTF.*",
            "execution.udf.*",
            "pyspark.infer*",
            "pyspark.toJSON.*",
        ),
    ),
    SettingRule(
        "what an error says, by which its cause is told", ("error.*", "dataFrameQueryContext.*", "pyspark.jvm*")
    ),
)

FREE: Final = (
    SettingRule(
        "speed and memory: how rows are split, sorted, joined, compiled and kept",
        (
            "adaptive.*",
            "autoBroadcastJoinThreshold",
            "broadcast*",
            "bucketing.*",
            "cartesianProductExec.*",
            "cbo.*",
            "codegen.*",
            "columnVector.*",
            "defaultCacheStorageLevel",
            "defaultSizeInBytes",
            "cache.serializer",
            "exchange.reuse",
            "execution.*",
            "files.max*",
            "files.minPartitionNum",
            "files.openCostInBytes",
            "inMemory*",
            "join.preferSortMergeJoin",
            "json.useUnsafeRow",
            "leafNodeDefaultParallelism",
            "limit.*",
            "maxBroadcastTableSize",
            "maxConcurrentOutputFileWriters",
            "maxSinglePartitionBytes",
            "objectHashAggregate.*",
            "parquet.columnarReaderBatchSize",
            "parquet.compression.codec",
            "parquet.enableVectorizedReader",
            "parquet.output.committer.class",
            "planner.*",
            "requireAllClusterKeys*",
            "resultQueryStage.*",
            "session.localRelation*",
            "sessionWindow.*",
            "shuffle*",
            "sort.*",
            "sortMergeJoinExec.*",
            "statistics.*",
            "subquery.*",
            "unionOutputPartitioning",
            "window.segmentTree.*",
            "windowExec.*",
            "classic.*",
        ),
    ),
    SettingRule(
        "where things are, and what runs beside: catalogs, committers, checkpoints, extensions, services",
        (
            "addPartitionInBatch.*",
            "artifact.*",
            "catalog.*",
            "catalogImplementation",
            "connect.*",
            "defaultCatalog",
            "defaultUrlStreamHandlerFactory.*",
            "extensions*",
            "filesource*",
            "globalTempDatabase",
            "hive.*",
            "kafka.*",
            "legacy.hive.*",
            "maven.*",
            "metadataCacheTTLSeconds",
            "pipelines.*",
            "queryExecutionListeners",
            "reflect.*",
            "restrictedMode.*",
            "scriptTransformation.*",
            "sources.*",
            "streaming.*",
            "thrift*",
            "truncateTable.*",
            "warehouse.dir",
        ),
    ),
    SettingRule(
        "statements and formats that the engine does not use",
        ("avro.*", "orc.*", "xml.*", "protobuf.*", "insertInto*", "dropTableOnView.*"),
    ),
    SettingRule(
        "what is logged and shown",
        (
            "cli.*",
            "dataframeCache.*",
            "debug*",
            "event.*",
            "expressionTreeChangeLog.*",
            "extendedExplainProviders",
            "maxMetadataStringLength",
            "maxPlanStringLength",
            "nameResolutionLog.*",
            "planChangeLog.*",
            "pyspark.dataSource.*",
            "pyspark.plotting.*",
            "pyspark.udf.*",
            "pyspark.worker.*",
            "redaction.*",
            "repl.*",
            "stackTracesInDataFrameContext",
            "ui.*",
        ),
    ),
)


def is_free(name: str) -> bool:
    """Tell whether a session may choose the value of a setting, for no meaning depends on it."""
    return not name.startswith(PREFIX) or rule_of(name) in FREE


def is_pinned(name: str) -> bool:
    """Tell whether a setting is known to change meaning."""
    return name.startswith(PREFIX) and rule_of(name) in PINNED


@cache
def rule_of(name: str) -> SettingRule | None:
    """Return the rule that names a setting: the one that says most of its name; None: no rule does."""
    short = name.removeprefix(PREFIX)
    found = [(len(p), rule) for rule in (*PINNED, *FREE) for p in rule.names if _fits(p, short)]
    return max(found, key=lambda one: one[0])[1] if found else None


def _fits(pattern: str, name: str) -> bool:
    """Tell whether a pattern names a setting."""
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern

"""Record: the frozen values that all layers exchange and the store keeps.

Nothing here does I/O or computes more than a property. Every struct encodes to JSON with
msgspec and decodes back to an equal value. Units stand last in names.
"""

# ruff: noqa: I001 - one import for each module, with every name exported

from flushlab.record.arm import BASE as BASE, BEST as BEST, CONTROL as CONTROL, Arm as Arm, Value as Value
from flushlab.record.arm import (
    Comparison as Comparison,
    FactorEffect as FactorEffect,
    Ratio as Ratio,
    Verdict as Verdict,
)
from flushlab.record.crash import (
    BinlogState as BinlogState,
    CrashRow as CrashRow,
    CrashArm as CrashArm,
    CrashFacts as CrashFacts,
    Crash as Crash,
    CrashKind as CrashKind,
    CrashNode as CrashNode,
    CrashOutcome as CrashOutcome,
    CrashPoint as CrashPoint,
    GtidState as GtidState,
    NodeAlone as NodeAlone,
    NodesKind as NodesKind,
    NodeWay as NodeWay,
    PointKind as PointKind,
    ReplicaOutcome as ReplicaOutcome,
    ReplicaState as ReplicaState,
)
from flushlab.record.trial import (
    DataFacts as DataFacts,
    SkippedTable as SkippedTable,
    StandIn as StandIn,
    TableRows as TableRows,
    WrittenTable as WrittenTable,
)
from flushlab.record.load import (
    IGNORED_ERRORS as IGNORED_ERRORS,
    ClientCost as ClientCost,
    ColumnParameter as ColumnParameter,
    Endpoint as Endpoint,
    ErrorCount as ErrorCount,
    FailedAttempts as FailedAttempts,
    KindTime as KindTime,
    Latency as Latency,
    AcksSpec as AcksSpec,
    LoadClient as LoadClient,
    LoadProgress as LoadProgress,
    LoadResult as LoadResult,
    LoadSeen as LoadSeen,
    LoadSpec as LoadSpec,
    OltpSpec as OltpSpec,
    OpenLoop as OpenLoop,
    Parameter as Parameter,
    RandSpec as RandSpec,
    RowCounts as RowCounts,
    ScriptSpec as ScriptSpec,
    ShareSpec as ShareSpec,
    SequenceParameter as SequenceParameter,
    SslMode as SslMode,
    StatementLatency as StatementLatency,
    StreamProgress as StreamProgress,
    StreamSpec as StreamSpec,
    TextDraw as TextDraw,
    TransactionLatency as TransactionLatency,
    TxnRows as TxnRows,
    TxnSpec as TxnSpec,
    TxnStatement as TxnStatement,
    TxnTransaction as TxnTransaction,
    UpsertSpec as UpsertSpec,
    UuidParameter as UuidParameter,
)
from flushlab.record.machine import (
    DiskEmulation as DiskEmulation,
    DiskProfile as DiskProfile,
    Failure as Failure,
    Machine as Machine,
    OtherLoad as OtherLoad,
    RequestLatency as RequestLatency,
)
from flushlab.record.trial import (
    FleetBench as FleetBench,
    MachineMean as MachineMean,
    MachineRatio as MachineRatio,
    MachineRun as MachineRun,
    OverMachines as OverMachines,
)
from flushlab.record.observed import (
    LatencySource as LatencySource,
    ObservedLoad as ObservedLoad,
    WrittenStatements as WrittenStatements,
    side_by_side as side_by_side,
    together as together,
)
from flushlab.record.probe import (
    Ceiling as Ceiling,
    CommitLatency as CommitLatency,
    DiskResult as DiskResult,
    DiskLatency as DiskLatency,
    BinlogStrategy as BinlogStrategy,
    Layout as Layout,
    Medium as Medium,
    Order as Order,
    ProbeRecord as ProbeRecord,
    RefusedStrategy as RefusedStrategy,
    RoundCost as RoundCost,
    ServerRate as ServerRate,
    Share as Share,
    Switching as Switching,
    SwitchPhase as SwitchPhase,
    Way as Way,
)
from flushlab.record.machine import Launch as Launch, ServerIdentity as ServerIdentity, Storage as Storage
from flushlab.record.arm import SourceKind as SourceKind, SourceText as SourceText
from flushlab.record.trial import (
    FILE_CLASSES as FILE_CLASSES,
    FileActivity as FileActivity,
    FileIo as FileIo,
    LostNode as LostNode,
    NodeActivity as NodeActivity,
    Outcome as Outcome,
    Performance as Performance,
    ServerSample as ServerSample,
    Slice as Slice,
    Stage as Stage,
    StageTime as StageTime,
    StatementKind as StatementKind,
    Trial as Trial,
)
from flushlab.record.arm import Warning as Warning

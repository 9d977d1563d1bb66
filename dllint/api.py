"""Everything a rule file imports."""

from __future__ import annotations

from dllint.assumptions import Assumption, Assumptions
from dllint.choices import Choice, alternatives
from dllint.context import Context
from dllint.context.averages import Average
from dllint.context.checkpoints import (
    CheckpointView,
    Part,
    Restored,
    Saved,
    Wrapping,
    is_same_path,
    key_loaded,
    keys_needed,
    keys_read,
    path_pattern,
    path_texts,
)
from dllint.context.commands import RefusedCommand
from dllint.context.continuing import Continuation, Overwritten
from dllint.context.coverage import Trained, Untrained
from dllint.context.data import DataView
from dllint.context.judging import assumed_under, flatten, judge, ways
from dllint.context.loading import Load
from dllint.context.modes import Modes
from dllint.context.modules import AttributeUse
from dllint.context.naming import Topic
from dllint.context.norm_modes import Undone
from dllint.context.normalization import Normalization, NormalizationUse, Numbers
from dllint.context.options import assumed_of_options
from dllint.context.passes import Pass
from dllint.context.phases import Phase
from dllint.context.rates import RateSetting
from dllint.context.records import GivenScore, Record
from dllint.context.resuming import Resumption
from dllint.context.sampling import Draw, Randomness, Workers
from dllint.context.schedules import Unstepped
from dllint.context.scores import BatchLoop
from dllint.context.seeding import WorkerSeed
from dllint.context.side_files import SideFile
from dllint.context.sources import Where, receiver_of
from dllint.context.strides import Stride
from dllint.context.tokenizing import PaddedBatch
from dllint.context.unpickling import ObjectUse
from dllint.context.uses import Kept
from dllint.events import (
    AttributeAssigned,
    Backward,
    CallRefused,
    DatasetCreated,
    EpochSet,
    Event,
    Frame,
    GradientClip,
    LibraryCall,
    LoaderCreated,
    LossCall,
    ModeChange,
    ModelChanged,
    ModelForward,
    NameMissing,
    OpaqueCall,
    OptimizerCreated,
    OptimizerStep,
    OptionMissing,
    ParametersAdded,
    ParametersUpdated,
    RandomSeeded,
    ScalerUnscale,
    ScalerUpdate,
    SchedulerCreated,
    SchedulerStep,
    StateRead,
    StateRestored,
    StateSaved,
    StateTaken,
    TransformsComposed,
    UnpackingRefused,
    ZeroGrad,
)
from dllint.findings import Edit, Finding, Fix
from dllint.flow import Flow
from dllint.forms import added, attribute_of, element_of, summands
from dllint.interp.ask.contractions import Contraction
from dllint.interp.ask.images import Image
from dllint.interp.ask.origins import Origin
from dllint.interp.ask.padding import Padding
from dllint.interp.ask.pipelines import TransformCall, TransformStep
from dllint.interp.ask.reshapes import Mixture
from dllint.interp.ask.sequences import Steps
from dllint.interp.ask.shape import Shape
from dllint.interp.ask.sizes import Size
from dllint.interp.run.saving import SAVERS
from dllint.interp.source.batchwise import Mean, Sum
from dllint.interp.source.bindings import is_placeholder
from dllint.interp.source.effects import LostValue
from dllint.interp.source.facts import Removal
from dllint.interp.source.filtered_lists import Filtered, filtered_beside
from dllint.interp.source.left_out import LeftOut
from dllint.interp.source.library_names import Gone
from dllint.interp.source.listing_order import Definition, ListingOrder
from dllint.interp.source.meters import Meter
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.paired_lists import Column, Listings, Pairing
from dllint.interp.source.positions import statement_around
from dllint.interp.source.remainders import Remainder
from dllint.interp.source.sample_caches import attribute_of_self, sample_caches
from dllint.interp.source.sample_reads import (
    SampleRead,
    counted_attribute,
    declared_length,
    only_value,
    sample_reads,
    split_reads,
)
from dllint.interp.source.set_order import SetIds, ids_in_set_order
from dllint.rewriting import (
    add_entry,
    beside,
    cast_argument,
    detach_argument,
    insert_after,
    insert_before,
    is_bound_at,
    misspelled,
    misspellings,
    move_after,
    move_before,
    remove,
    remove_argument,
    remove_operation,
    rename_attribute,
    rename_call,
    replace_range,
    set_argument,
    spelling_of,
    unwrap_call,
    wrap_in,
)
from dllint.rule import Rule
from dllint.sites import Guard, Guards, Site
from dllint.structure import Arm, Block, Branch, Invocation, Leave, Loop, Node, Program, walk
from dllint.syntax.placed import Edits, together
from dllint.values import (
    Absent,
    Arguments,
    BoundMethod,
    Class,
    Const,
    External,
    Function,
    Instance,
    Items,
    Nothing,
    Partial,
    Setting,
    Symbol,
    Table,
    Value,
)

__all__ = [
    "SAVERS",
    "Absent",
    "Arguments",
    "Arm",
    "Assumption",
    "Assumptions",
    "AttributeAssigned",
    "AttributeUse",
    "Average",
    "Backward",
    "BatchLoop",
    "Block",
    "BoundMethod",
    "Branch",
    "CallRefused",
    "CheckpointView",
    "Choice",
    "Class",
    "Column",
    "Const",
    "Context",
    "Continuation",
    "Contraction",
    "DataView",
    "DatasetCreated",
    "Definition",
    "Draw",
    "Edit",
    "Edits",
    "EpochSet",
    "Event",
    "External",
    "Filtered",
    "Finding",
    "Fix",
    "Flow",
    "Frame",
    "Function",
    "GivenScore",
    "Gone",
    "GradientClip",
    "Guard",
    "Guards",
    "Image",
    "Instance",
    "Invocation",
    "Items",
    "Kept",
    "Leave",
    "LeftOut",
    "LibraryCall",
    "ListingOrder",
    "Listings",
    "Load",
    "LoaderCreated",
    "Loop",
    "LossCall",
    "LostValue",
    "Mean",
    "Meter",
    "Mixture",
    "ModeChange",
    "ModelChanged",
    "ModelForward",
    "Modes",
    "NameMissing",
    "Node",
    "Normalization",
    "NormalizationUse",
    "Nothing",
    "Numbers",
    "ObjectUse",
    "OpaqueCall",
    "OptimizerCreated",
    "OptimizerStep",
    "OptionMissing",
    "Origin",
    "Overwritten",
    "PaddedBatch",
    "Padding",
    "Pairing",
    "ParametersAdded",
    "ParametersUpdated",
    "Part",
    "Partial",
    "Pass",
    "Phase",
    "Program",
    "RandomSeeded",
    "Randomness",
    "RateSetting",
    "Record",
    "RefusedCommand",
    "Remainder",
    "Removal",
    "Restored",
    "Resumption",
    "Rule",
    "SampleRead",
    "Saved",
    "ScalerUnscale",
    "ScalerUpdate",
    "SchedulerCreated",
    "SchedulerStep",
    "SetIds",
    "Setting",
    "Shape",
    "SideFile",
    "Site",
    "Size",
    "StateRead",
    "StateRestored",
    "StateSaved",
    "StateTaken",
    "Steps",
    "Stride",
    "Sum",
    "Symbol",
    "Table",
    "Topic",
    "Trained",
    "TransformCall",
    "TransformStep",
    "TransformsComposed",
    "Undone",
    "UnpackingRefused",
    "Unstepped",
    "Untrained",
    "Value",
    "Where",
    "WorkerSeed",
    "Workers",
    "Wrapping",
    "ZeroGrad",
    "add_entry",
    "added",
    "alternatives",
    "assumed_of_options",
    "assumed_under",
    "attribute_of",
    "attribute_of_self",
    "beside",
    "cast_argument",
    "counted_attribute",
    "declared_length",
    "detach_argument",
    "element_of",
    "filtered_beside",
    "flatten",
    "ids_in_set_order",
    "insert_after",
    "insert_before",
    "is_bound_at",
    "is_placeholder",
    "is_same_path",
    "judge",
    "key_loaded",
    "keys_needed",
    "keys_read",
    "misspelled",
    "misspellings",
    "move_after",
    "move_before",
    "nodes_of",
    "only_value",
    "path_pattern",
    "path_texts",
    "receiver_of",
    "remove",
    "remove_argument",
    "remove_operation",
    "rename_attribute",
    "rename_call",
    "replace_range",
    "sample_caches",
    "sample_reads",
    "set_argument",
    "spelling_of",
    "split_reads",
    "statement_around",
    "summands",
    "together",
    "unwrap_call",
    "walk",
    "ways",
    "wrap_in",
]

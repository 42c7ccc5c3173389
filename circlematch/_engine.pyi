"""The compiled engine. Made by engine/python/interface.py from the C headers: run `make generated`."""

from typing import Any, Final

CData = Any  # a C pointer

ffi: Any

class _Library:
    CM_MODEL_VERSION: Final[int]
    CM_SAMPLE_RATE: Final[int]
    CM_WINDOW: Final[int]
    CM_HOP: Final[int]
    CM_FFT: Final[int]
    CM_HALF_FFT: Final[int]
    CM_MEL_BANDS: Final[int]
    CM_MEL_WEIGHTS: Final[int]
    CM_USUAL_FRAMES: Final[int]
    CM_LEAST_FRAMES: Final[int]
    CM_MOST_FRAMES: Final[int]
    CM_FRONT_END_NUMBER: Final[int]
    CM_FASTEST: Final[int]
    CM_BATCH_LANES: Final[int]
    CM_TILE_FRAMES: Final[int]
    CM_TRAIN_STAGES: Final[int]
    CM_OK: Final[int]
    CM_ERROR_ALIGNMENT: Final[int]
    CM_ERROR_CUT: Final[int]
    CM_ERROR_NOT_A_MODEL: Final[int]
    CM_ERROR_VERSION: Final[int]
    CM_ERROR_CHECKSUM: Final[int]
    CM_ERROR_DAMAGED: Final[int]
    CM_ERROR_UNSUPPORTED: Final[int]
    CM_ERROR_MEMORY: Final[int]
    CM_ERROR_OPTION: Final[int]
    def cm_model_open(self, model: CData, bytes_: CData, size: int, /) -> int: ...
    def cm_label(self, model: CData, label: int, /) -> CData: ...
    def cm_options_of(self, model: CData, options: CData, /) -> None: ...
    def cm_stream_size(self, model: CData, /) -> int: ...
    def cm_stream_open(self, stream: CData, model: CData, memory: CData, size: int, options: CData, /) -> int: ...
    def cm_reset(self, stream: CData, /) -> None: ...
    def cm_push_i16(self, stream: CData, samples: CData, count: int, /) -> int: ...
    def cm_push_f32(self, stream: CData, samples: CData, count: int, /) -> int: ...
    def cm_finish(self, stream: CData, /) -> int: ...
    def cm_scores(self, stream: CData, scores: CData, probabilities: CData, /) -> int: ...
    def cm_next_hit(self, stream: CData, hit: CData, /) -> int: ...
    def cm_clip_i16(self, stream: CData, samples: CData, count: int, answer: CData, /) -> None: ...
    def cm_clip_f32(self, stream: CData, samples: CData, count: int, answer: CData, /) -> None: ...
    def cm_pool_push_i16(self, streams: CData, samples: CData, starts: CData, count: int, hits: CData, /) -> int: ...
    def cm_pool_push_f32(self, streams: CData, samples: CData, starts: CData, count: int, hits: CData, /) -> int: ...
    def cm_compact_stream_size(self, model: CData, /) -> int: ...
    def cm_compact_stream_open(
        self,
        stream: CData,
        model: CData,
        memory: CData,
        size: int,
        options: CData,
        /,
    ) -> int: ...
    def cm_compact_reset(self, stream: CData, /) -> None: ...
    def cm_compact_finish(self, stream: CData, /) -> int: ...
    def cm_compact_next_hit(self, stream: CData, hit: CData, /) -> int: ...
    def cm_compact_pool_push_i16(
        self,
        streams: CData,
        samples: CData,
        starts: CData,
        count: int,
        hits: CData,
        /,
    ) -> int: ...
    def cm_compact_pool_push_f32(
        self,
        streams: CData,
        samples: CData,
        starts: CData,
        count: int,
        hits: CData,
        /,
    ) -> int: ...
    def cm_score_clips(
        self,
        stream: CData,
        clips: CData,
        samples: int,
        rows: CData,
        count: int,
        scores: CData,
        /,
    ) -> None: ...
    def cm_hear_i16(self, recording: CData, samples: CData, count: int, /) -> int: ...
    def cm_hear_f32(self, recording: CData, samples: CData, count: int, /) -> int: ...
    def cm_embed(self, stream: CData, samples: CData, count: int, frames: CData, /) -> None: ...
    def cm_window_scores(self, stream: CData, samples: CData, count: int, most: int, scores: CData, /) -> int: ...
    def cm_unit_frames(self, stream: CData, picture: CData, frames: CData, /) -> None: ...
    def cm_log_mel_f32(
        self,
        clips: CData,
        count: int,
        samples: int,
        augmentation: CData,
        work: CData,
        out: CData,
        /,
    ) -> None: ...
    def cm_log_mel_mixes(
        self,
        mixes: CData,
        count: int,
        samples: int,
        augmentation: CData,
        work: CData,
        out: CData,
        /,
    ) -> None: ...
    def cm_log_mel_lanes(
        self,
        mixes: CData,
        first: int,
        count: int,
        samples: int,
        augmentation: CData,
        work: CData,
        out: CData,
        lanes: int,
        band_step: int,
        frame_step: int,
        /,
    ) -> None: ...
    def cm_train_size(self, config: CData, /) -> int: ...
    def cm_train_open(self, config: CData, block: CData, /) -> CData: ...
    def cm_train_close(self, train: CData, /) -> None: ...
    def cm_train_parameters(self, train: CData, /) -> int: ...
    def cm_train_running(self, train: CData, /) -> int: ...
    def cm_train_learn(self, train: CData, memory: CData, batch: CData, thread: int, /) -> None: ...
    def cm_train_scores(self, train: CData, memory: CData, batch: CData, thread: int, scores: CData, /) -> None: ...
    def cm_train_dropout(self, config: CData, seed: int, examples: int, mask: CData, /) -> None: ...

lib: _Library

/* CircleMatch in C++17: thin wrappers of circlematch.h that own their memory. Nothing else is needed.
 *
 *     const circlematch::Model model(cm_d16_gsc, sizeof cm_d16_gsc);    // or circlematch::Model::read("d16-gsc.cm")
 *     circlematch::Stream stream(model);
 *     for (const circlematch::Hit &hit : stream.push(samples, count))   // 16 kHz, mono, any number of samples at a time
 *         std::cout << hit.label << ' ' << hit.start.count() << " ms\n";
 *
 * A failure is a circlematch::Error. Models are shared: a copy refers to the same model, and a stream keeps its model
 * alive. A stream belongs to one thread at a time.
 *
 * Copyright The CircleMatch developers. SPDX-License-Identifier: Apache-2.0
 */
#ifndef CIRCLEMATCH_HPP
#define CIRCLEMATCH_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "circlematch.h"

namespace circlematch {

/* What a status means, in words. */
inline const char *words(cm_status status)
{
    switch (status) {
    case CM_OK: return "no error";
    case CM_ERROR_ALIGNMENT: return "the model's bytes do not begin at a multiple of 4";
    case CM_ERROR_CUT: return "the model is cut off, or longer than its header says";
    case CM_ERROR_NOT_A_MODEL: return "the bytes are not a model (or this machine is big-endian)";
    case CM_ERROR_VERSION: return "the model is for another version of the engine: export it again";
    case CM_ERROR_CHECKSUM: return "the model's bytes have changed since it was written";
    case CM_ERROR_DAMAGED: return "the model has sizes or numbers out of range";
    case CM_ERROR_UNSUPPORTED: return "this build of the engine does not have such a network or option";
    case CM_ERROR_MEMORY: return "the stream has too little memory";
    case CM_ERROR_OPTION: return "an option is outside of its range";
    }
    return "an unknown status";
}

/* What went wrong. */
class Error : public std::runtime_error {
public:
    explicit Error(cm_status status) : std::runtime_error(words(status)), status_(status) {}
    cm_status status() const noexcept { return status_; }

private:
    cm_status status_;
};

/* A keyword with its start and end, counted from the start of the recording. The label lives as long as the model. */
struct Hit {
    std::string_view label;
    float score;
    std::chrono::milliseconds start, end;
};

/* The most probable class of a clip. Start and end are -1 ms if it is no keyword. */
using Answer = Hit;

/* A checked model. */
class Model {
public:
    /* Refers to bytes that stay in place, such as the array that `circlematch export --to c` writes. */
    Model(const void *bytes, std::size_t size) : held_(std::make_shared<Held>()) { open(bytes, size); }

    /* Reads a file that `circlematch export --to bundle` has written. */
    static Model read(const std::string &path)
    {
        std::ifstream file(path, std::ios::binary);
        const std::vector<char> bytes{ std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>() };
        if (!file)
            throw std::runtime_error("cannot read " + path);
        Model model;
        model.held_->owned.resize(bytes.size() / sizeof(std::uint32_t) + 1);
        std::memcpy(model.held_->owned.data(), bytes.data(), bytes.size());
        model.open(model.held_->owned.data(), bytes.size());
        return model;
    }

    std::size_t classes() const { return static_cast<std::size_t>(get()->classes); }
    std::string_view label(std::int32_t number) const { return cm_label(get(), number); }
    bool is_keyword(std::int32_t number) const { return !get()->background[number]; }

    /* The options that the model has been made with: change what should be different. */
    cm_options options() const
    {
        cm_options options;
        cm_options_of(get(), &options);
        return options;
    }

    const cm_model *get() const noexcept { return &held_->model; }

private:
    struct Held {
        std::vector<std::uint32_t> owned;
        cm_model model{};
    };

    Model() : held_(std::make_shared<Held>()) {}

    void open(const void *bytes, std::size_t size)
    {
        if (const cm_status status = cm_model_open(&held_->model, bytes, size); status != CM_OK)
            throw Error(status);
    }

    std::shared_ptr<Held> held_;
};

/* A recording that goes on, or one clip after another. */
class Stream {
public:
    explicit Stream(Model model) : Stream(model, model.options()) {}

    Stream(Model model, const cm_options &options) : model_(std::move(model)), memory_(cm_stream_size(model_.get()))
    {
        const cm_status status = cm_stream_open(&stream_, model_.get(), memory_.data(), memory_.size(), &options);
        if (status != CM_OK)
            throw Error(status);
    }

    Stream(Stream &&) = default;
    Stream &operator=(Stream &&) = default;
    Stream(const Stream &) = delete;
    Stream &operator=(const Stream &) = delete;

    /* Hears samples, and returns the hits that are complete now. */
    std::vector<Hit> push(const std::int16_t *samples, std::size_t count) { return pushed(cm_push_i16, samples, count); }
    std::vector<Hit> push(const float *samples, std::size_t count) { return pushed(cm_push_f32, samples, count); }

    /* The same for a std::vector, a std::array and what else has data() and size(). */
    template <class Samples> std::vector<Hit> push(const Samples &samples)
    {
        return push(std::data(samples), std::size(samples));
    }

    /* Ends the recording, and returns the remaining hits. The next push begins a new one. */
    std::vector<Hit> finish()
    {
        std::vector<Hit> hits;
        while (cm_finish(stream_))
            take(hits);
        take(hits);
        return hits;
    }

    void reset() { cm_reset(stream_); }

    /* The most probable class of the first second of a clip. */
    Answer clip(const std::int16_t *samples, std::size_t count) { return answered(cm_clip_i16, samples, count); }
    Answer clip(const float *samples, std::size_t count) { return answered(cm_clip_f32, samples, count); }

    /* Scores and probabilities of the newest window; empty before the first. */
    std::vector<float> scores() const { return of_newest(true); }
    std::vector<float> probabilities() const { return of_newest(false); }

    const Model &model() const noexcept { return model_; }
    cm_stream *get() noexcept { return stream_; }

private:
    Hit named(const cm_hit &hit) const
    {
        using std::chrono::milliseconds;
        return { model_.label(hit.label), hit.score, milliseconds(hit.start_ms), milliseconds(hit.end_ms) };
    }

    void take(std::vector<Hit> &hits)
    {
        for (cm_hit hit; cm_next_hit(stream_, &hit);)
            hits.push_back(named(hit));
    }

    template <class Sample>
    std::vector<Hit> pushed(std::size_t (*function)(cm_stream *, const Sample *, std::size_t), const Sample *samples,
                            std::size_t count)
    {
        std::vector<Hit> hits;
        for (std::size_t used = 0; used < count;) {
            used += function(stream_, samples + used, count - used);
            take(hits);
        }
        return hits;
    }

    template <class Sample>
    Answer answered(void (*function)(cm_stream *, const Sample *, std::size_t, cm_hit *), const Sample *samples,
                    std::size_t count)
    {
        cm_hit hit;
        function(stream_, samples, count, &hit);
        return named(hit);
    }

    std::vector<float> of_newest(bool scores) const
    {
        std::vector<float> numbers(model_.classes());
        const bool there = cm_scores(stream_, scores ? numbers.data() : nullptr, scores ? nullptr : numbers.data()) >= 0;
        return there ? numbers : std::vector<float>();
    }

    Model model_;
    std::vector<unsigned char> memory_;
    cm_stream *stream_ = nullptr;
};

}  // namespace circlematch

#endif

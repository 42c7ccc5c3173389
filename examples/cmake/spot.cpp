// Keywords in raw samples on standard input: arecord -q -f S16_LE -r 16000 | ./spot
#include <circlematch.hpp>

#include <array>
#include <cstdio>
#include <iostream>

#include "cm_d16_gsc.h"

static void print(const std::vector<circlematch::Hit> &hits)
{
    for (const circlematch::Hit &hit : hits)
        std::cout << hit.label << ' ' << hit.start.count() << ' ' << hit.end.count() << ' ' << hit.score << std::endl;
}

int main()
{
    circlematch::Stream stream(circlematch::Model(cm_d16_gsc, sizeof cm_d16_gsc));
    std::array<std::int16_t, 480> samples;
    while (const std::size_t count = std::fread(samples.data(), sizeof samples[0], samples.size(), stdin))
        print(stream.push(samples.data(), count));
    print(stream.finish());
}

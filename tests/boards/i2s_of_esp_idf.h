/* As much of ESP-IDF's I2S driver and log as the examples use, on a computer: sound comes from a file. */
#pragma once
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define ESP_LOGI(tag, ...) ((void)(tag), printf(__VA_ARGS__), printf("\n"))
#define ESP_LOGE(tag, ...) (ESP_LOGI(tag, __VA_ARGS__), exit(3))
#define ESP_ERROR_CHECK(call) ((call) ? exit(4) : (void)0)

enum { GPIO_NUM_4 = 4, GPIO_NUM_5, GPIO_NUM_6, GPIO_NUM_41 = 41, GPIO_NUM_42, I2S_GPIO_UNUSED = -1 };
enum { I2S_NUM_0, I2S_NUM_AUTO, I2S_ROLE_MASTER, I2S_SLOT_MODE_MONO };
enum { I2S_DATA_BIT_WIDTH_16BIT = 16, I2S_DATA_BIT_WIDTH_32BIT = 32 };

typedef int esp_err_t;
typedef struct { int id, role; } i2s_chan_config_t;
typedef struct { uint32_t rate; } i2s_clk_cfg_t;
typedef struct { int bits, mode; } i2s_slot_cfg_t;
typedef struct { int bits; } *i2s_chan_handle_t;

#define I2S_CHANNEL_DEFAULT_CONFIG(id, role) { id, role }

static inline esp_err_t i2s_new_channel(const i2s_chan_config_t *config, void *send, i2s_chan_handle_t *receive)
{
    static int bits;
    *receive = (i2s_chan_handle_t)&bits;
    return config->role != I2S_ROLE_MASTER || send;
}

static inline esp_err_t i2s_channel_enable(i2s_chan_handle_t channel)
{
    return channel->bits == 0;
}

/* 16 bits as they are, 32 bits eight times quieter. */
static inline esp_err_t i2s_channel_read(i2s_chan_handle_t channel, void *to, size_t size, size_t *bytes, uint32_t wait_ms)
{
    static FILE *file;
    int16_t samples[1000];
    file = file ? file : fopen("sound", "rb");
    const size_t width = (size_t)channel->bits / 8, count = fread(samples, 2, size / width, file);
    if (!count)
        exit(0);
    for (size_t i = 0; i < count; i++)
        if (width == 2)
            ((int16_t *)to)[i] = samples[i];
        else
            ((int32_t *)to)[i] = samples[i] * 8192;
    *bytes = count * width;
    return !wait_ms;
}

void app_main(void);

/* Logs the keywords that an I2S microphone hears, such as an INMP441.
 * Words: @words@
 */
#include <driver/i2s_std.h>
#include <esp_log.h>

#include "circlematch.h"
#include "cm_@name@.h"

#define BCLK GPIO_NUM_4     /* yours; the microphone's L/R pin is at ground */
#define WS GPIO_NUM_5
#define DATA_IN GPIO_NUM_6
#define PART 160            /* samples at a time: 10 ms */

static const char *TAG = "circlematch";

static i2s_chan_handle_t open_microphone(void)
{
    i2s_chan_handle_t channel;
    const i2s_chan_config_t of_channel = I2S_CHANNEL_DEFAULT_CONFIG(I2S_NUM_AUTO, I2S_ROLE_MASTER);
    const i2s_std_config_t of_microphone = {
        .clk_cfg = I2S_STD_CLK_DEFAULT_CONFIG(16000),
        .slot_cfg = I2S_STD_PHILIPS_SLOT_DEFAULT_CONFIG(I2S_DATA_BIT_WIDTH_32BIT, I2S_SLOT_MODE_MONO),
        .gpio_cfg = { .mclk = I2S_GPIO_UNUSED, .bclk = BCLK, .ws = WS, .dout = I2S_GPIO_UNUSED, .din = DATA_IN },
    };
    ESP_ERROR_CHECK(i2s_new_channel(&of_channel, NULL, &channel));
    ESP_ERROR_CHECK(i2s_channel_init_std_mode(channel, &of_microphone));
    ESP_ERROR_CHECK(i2s_channel_enable(channel));
    return channel;
}

/* The upper 16 of 32 bits, 18 dB louder: these microphones are quiet. */
static int16_t sample_of(int32_t word)
{
    const int32_t louder = word >> 13;
    return (int16_t)(louder > 32767 ? 32767 : louder < -32768 ? -32768 : louder);
}

void app_main(void)
{
    static uint8_t memory[@memory@];
    static cm_model model;
    static int32_t words[PART];
    static int16_t samples[PART];
    cm_stream *stream;
    if (cm_model_open(&model, cm_@name@, sizeof cm_@name@) != CM_OK
        || cm_stream_open(&stream, &model, memory, sizeof memory, NULL) != CM_OK || !cm_@name@_self_test(stream)) {
        ESP_LOGE(TAG, "the model does not run on this chip");
        return;
    }
    cm_reset(stream);
    const i2s_chan_handle_t microphone = open_microphone();
    for (;;) {
        size_t bytes = 0;
        ESP_ERROR_CHECK(i2s_channel_read(microphone, words, sizeof words, &bytes, 1000));
        const size_t count = bytes / sizeof words[0];
        for (size_t i = 0; i < count; i++)
            samples[i] = sample_of(words[i]);
        for (size_t used = 0; used < count;) {
            used += cm_push_i16(stream, samples + used, count - used);
            for (cm_hit hit; cm_next_hit(stream, &hit);)
                ESP_LOGI(TAG, "%s %.2f", cm_label(&model, hit.label), (double)hit.score);
        }
    }
}

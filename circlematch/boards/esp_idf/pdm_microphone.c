/* Logs the keywords that a PDM microphone hears.
 * Words: @words@
 */
#include <driver/i2s_pdm.h>
#include <esp_log.h>

#include "circlematch.h"
#include "cm_@name@.h"

#define CLOCK GPIO_NUM_42   /* yours; these are the pins of the XIAO ESP32S3 Sense */
#define DATA_IN GPIO_NUM_41
#define PART 160            /* samples at a time: 10 ms */

static const char *TAG = "circlematch";

static i2s_chan_handle_t open_microphone(void)
{
    i2s_chan_handle_t channel;
    const i2s_chan_config_t of_channel = I2S_CHANNEL_DEFAULT_CONFIG(I2S_NUM_0, I2S_ROLE_MASTER);
    const i2s_pdm_rx_config_t of_microphone = {
        .clk_cfg = I2S_PDM_RX_CLK_DEFAULT_CONFIG(16000),
        .slot_cfg = I2S_PDM_RX_SLOT_DEFAULT_CONFIG(I2S_DATA_BIT_WIDTH_16BIT, I2S_SLOT_MODE_MONO),
        .gpio_cfg = { .clk = CLOCK, .din = DATA_IN },
    };
    ESP_ERROR_CHECK(i2s_new_channel(&of_channel, NULL, &channel));
    ESP_ERROR_CHECK(i2s_channel_init_pdm_rx_mode(channel, &of_microphone));
    ESP_ERROR_CHECK(i2s_channel_enable(channel));
    return channel;
}

void app_main(void)
{
    static uint8_t memory[@memory@];
    static cm_model model;
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
        ESP_ERROR_CHECK(i2s_channel_read(microphone, samples, sizeof samples, &bytes, 1000));
        const size_t count = bytes / sizeof samples[0];
        for (size_t used = 0; used < count;) {
            used += cm_push_i16(stream, samples + used, count - used);
            for (cm_hit hit; cm_next_hit(stream, &hit);)
                ESP_LOGI(TAG, "%s %.2f", cm_label(&model, hit.label), (double)hit.score);
        }
    }
}

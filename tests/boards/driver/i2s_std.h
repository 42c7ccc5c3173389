#pragma once
#include "../i2s_of_esp_idf.h"

#define I2S_STD_CLK_DEFAULT_CONFIG(rate) { rate }
#define I2S_STD_PHILIPS_SLOT_DEFAULT_CONFIG(bits, mode) { bits, mode }

typedef struct {
    i2s_clk_cfg_t clk_cfg;
    i2s_slot_cfg_t slot_cfg;
    struct { int mclk, bclk, ws, dout, din; } gpio_cfg;
} i2s_std_config_t;

static inline esp_err_t i2s_channel_init_std_mode(i2s_chan_handle_t channel, const i2s_std_config_t *config)
{
    channel->bits = config->slot_cfg.bits;
    return config->clk_cfg.rate != 16000;
}

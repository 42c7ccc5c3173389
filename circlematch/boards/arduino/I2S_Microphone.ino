/* Prints the keywords that an I2S microphone hears, such as an INMP441 on an ESP32. Needs the ESP32 core 3.0 or newer.
 * Words: @words@
 */
#include <CircleMatch.h>
#include <ESP_I2S.h>

static const int BCLK = 4, WS = 5, DATA_IN = 6;  // yours; the microphone's L/R pin is at ground
static const size_t PART = 160;                  // samples at a time: 10 ms

static cm_model model;
static cm_stream *stream;
static uint8_t memory[CIRCLEMATCH_MEMORY];
static I2SClass microphone;

static void stop(const char *reason) {
  Serial.println(reason);
  for (;;)
    delay(1000);
}

void setup() {
  Serial.begin(115200);
  if (cm_model_open(&model, cm_@name@, sizeof cm_@name@) != CM_OK)
    stop("the model cannot be read");
  if (cm_stream_open(&stream, &model, memory, sizeof memory, NULL) != CM_OK)
    stop("there is too little memory for a stream");
  if (!cm_@name@_self_test(stream))
    stop("this board computes other scores than it should");
  cm_reset(stream);
  microphone.setPins(BCLK, WS, -1, DATA_IN);
  if (!microphone.begin(I2S_MODE_STD, 16000, I2S_DATA_BIT_WIDTH_32BIT, I2S_SLOT_MODE_MONO, I2S_STD_SLOT_LEFT))
    stop("the microphone does not start");
}

void loop() {
  static int32_t words[PART];
  static int16_t samples[PART];
  const size_t count = microphone.readBytes((char *)words, sizeof words) / sizeof words[0];
  for (size_t i = 0; i < count; i++) {
    const int32_t louder = words[i] >> 13;  // the upper 16 of 32 bits, 18 dB louder: these microphones are quiet
    samples[i] = (int16_t)constrain(louder, -32768, 32767);
  }
  for (size_t used = 0; used < count;) {
    used += cm_push_i16(stream, samples + used, count - used);
    for (cm_hit hit; cm_next_hit(stream, &hit);) {
      Serial.print(cm_label(&model, hit.label));
      Serial.print(' ');
      Serial.println(hit.score);
    }
  }
}

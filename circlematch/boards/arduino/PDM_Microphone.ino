/* Prints the keywords that a PDM microphone hears, such as that of the Nano 33 BLE Sense.
 * Words: @words@
 */
#include <CircleMatch.h>
#include <PDM.h>

static const uint32_t QUEUED = 4096;  // samples between the interrupt and the loop: a quarter of a second

static cm_model model;
static cm_stream *stream;
static uint8_t memory[CIRCLEMATCH_MEMORY];

// The interrupt writes at `written`, the loop reads at `heard`. Both only grow, and wrap around with the queue.
static int16_t queue[QUEUED];
static volatile uint32_t written = 0;
static uint32_t heard = 0;

static void onSound() {
  int16_t part[256];
  const int bytes = PDM.available();
  const int count = PDM.read(part, bytes < (int)sizeof part ? bytes : (int)sizeof part) / (int)sizeof part[0];
  for (int i = 0; i < count; i++)
    queue[(written + i) % QUEUED] = part[i];
  written = written + count;
}

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
  PDM.onReceive(onSound);
  if (!PDM.begin(1, 16000))
    stop("the microphone does not start");
}

void loop() {
  if (written - heard > QUEUED) {
    Serial.println("sound was lost: the board is too slow, or the loop is too long");
    heard = written;
  }
  while (heard != written) {
    const uint32_t place = heard % QUEUED, waiting = written - heard;
    heard += cm_push_i16(stream, queue + place, min(waiting, QUEUED - place));
    for (cm_hit hit; cm_next_hit(stream, &hit);) {
      Serial.print(cm_label(&model, hit.label));
      Serial.print(' ');
      Serial.println(hit.score);
    }
  }
}

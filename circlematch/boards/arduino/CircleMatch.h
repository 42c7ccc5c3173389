/* CircleMatch @version@ with the model @model@: what a sketch includes. */
#ifndef CIRCLEMATCH_ARDUINO_H
#define CIRCLEMATCH_ARDUINO_H

#include "circlematch.h"
#include "cm_@name@.h"

#define CIRCLEMATCH_MEMORY @memory@  /* bytes for a stream of this model */

#endif

/** Between reading the command line of a scan and judging it as a whole. */
#ifndef ES_SCAN_INTERNAL_H
#define ES_SCAN_INTERNAL_H

#include "cli/program/command.h"
#include "cli/scan/scan.h"

/** Tags of the options: the figures that have it, as 1 << es_figure_kind, and
 *  that it is for pictures alone. */
#define ES_SCAN_PICTURE (1u << 31)

#endif

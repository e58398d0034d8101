/* coordinator/choice.h - which of a plan's trials, and with what changed: the options of each
 * command that runs a plan, or hands it in somewhere to be run. */
#ifndef LS_COORDINATOR_CHOICE_H
#define LS_COORDINATOR_CHOICE_H

#include <stddef.h>

#include "common/options.h"

struct coord_choice {
    const char *only;          /* glob on target/workload; NULL: all */
    const char *seed;          /* NULL: the plan's, or drawn */
    struct ls_option_list set; /* path=value */
};

/* Rows of a table of options, of the struct's member that is a coord_choice. */
#define COORD_CHOICE_ROWS(type, member)                                                 \
    { "only",                                                                           \
      0,                                                                                \
      LS_OPTION_TEXT,                                                                   \
      offsetof(type, member.only),                                                      \
      "GLOB",                                                                           \
      NULL,                                                                             \
      1,                                                                                \
      0,                                                                                \
      "only trials whose target/workload matches" },                                    \
        { "seed",                                                                       \
          0,                                                                            \
          LS_OPTION_TEXT,                                                               \
          offsetof(type, member.seed),                                                  \
          "N",                                                                          \
          NULL,                                                                         \
          1,                                                                            \
          0,                                                                            \
          "of order and statistics (the plan's, or drawn)" },                           \
    {                                                                                   \
        "set", 0, LS_OPTION_LIST, offsetof(type, member.set), "PATH=VALUE", NULL, 1, 0, \
            "change a field of the plan: workloads[0].measure=2s"                       \
    }

#endif

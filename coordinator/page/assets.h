/* coordinator/page/assets.h - files that are compiled in; assets.c is made by embed.cmake. */
#ifndef LS_COORDINATOR_PAGE_ASSETS_H
#define LS_COORDINATOR_PAGE_ASSETS_H

#include <stddef.h>

struct coord_asset {
    const unsigned char *data;
    size_t len; /* 0: left out of this build */
};

extern const struct coord_asset coord_asset_uplot_js;
extern const struct coord_asset coord_asset_uplot_css;
extern const struct coord_asset coord_asset_page_css;
extern const struct coord_asset coord_asset_base_js;
extern const struct coord_asset coord_asset_charts_js;
extern const struct coord_asset coord_asset_figures_js;
extern const struct coord_asset coord_asset_report_js;
extern const struct coord_asset coord_asset_live_js;

#endif

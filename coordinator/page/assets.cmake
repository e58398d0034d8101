# What pages are made of, compiled into assets.c: the files of this folder, and uPlot from npm.
set(LS_CHARTS AUTO CACHE STRING
    "charts in pages, by uPlot from npm: ON; OFF: tables alone, no npm; AUTO: ON if npm has it")

set(page ${CMAKE_CURRENT_LIST_DIR})
set(page_npm ${CMAKE_BINARY_DIR}/page-npm)
set(uplot_js ${page_npm}/node_modules/uplot/dist/uPlot.iife.min.js)
set(uplot_css ${page_npm}/node_modules/uplot/dist/uPlot.min.css)

# The exact package of the lock file, checked by its hash; scripts of packages never run.
function(ls_get_uplot out_ok)
    set(${out_ok} FALSE PARENT_SCOPE)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page}/npm/package-lock.json)
    file(SHA256 ${page}/npm/package-lock.json wanted)
    if(EXISTS ${page_npm}/installed)
        file(READ ${page_npm}/installed installed)
        if(installed STREQUAL wanted AND EXISTS ${uplot_js})
            set(${out_ok} TRUE PARENT_SCOPE)
            return()
        endif()
    endif()
    find_program(LS_NPM npm)
    if(NOT LS_NPM)
        return()
    endif()
    file(COPY ${page}/npm/package.json ${page}/npm/package-lock.json DESTINATION ${page_npm})
    execute_process(COMMAND ${LS_NPM} ci --ignore-scripts --no-audit --no-fund --prefer-offline
            --fetch-retries=1 --fetch-timeout=30000
        WORKING_DIRECTORY ${page_npm} RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_VARIABLE said
        TIMEOUT 120)
    if(NOT status EQUAL 0)
        message(STATUS "npm ci: ${said}")
        return()
    endif()
    file(WRITE ${page_npm}/installed ${wanted})
    set(${out_ok} TRUE PARENT_SCOPE)
endfunction()

set(have_uplot FALSE)
if(NOT LS_CHARTS STREQUAL "OFF")
    ls_get_uplot(have_uplot)
    if(NOT have_uplot AND LS_CHARTS STREQUAL "ON")
        message(FATAL_ERROR "LS_CHARTS is ON, but uPlot cannot be had from npm: with "
            "-D LS_CHARTS=OFF reports and the live page have tables alone")
    endif()
endif()
if(have_uplot)
    message(STATUS "Charts in pages: uPlot")
else()
    message(STATUS "Charts in pages: none (LS_CHARTS=${LS_CHARTS}); pages have tables alone and say so")
    set(uplot_js "")
    set(uplot_css "")
endif()

set(page_files uplot_js=${uplot_js} uplot_css=${uplot_css} page_css=${page}/page.css
    base_js=${page}/base.js charts_js=${page}/charts.js figures_js=${page}/figures.js report_js=${page}/report.js
    live_js=${page}/live.js)
set(page_sources ${uplot_js} ${uplot_css} ${page}/page.css ${page}/base.js ${page}/charts.js
    ${page}/figures.js ${page}/report.js ${page}/live.js)
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/page-npm/assets.c
    COMMAND ${CMAKE_COMMAND} "-DFILES=${page_files}" -DOUT=${CMAKE_BINARY_DIR}/page-npm/assets.c
        -P ${page}/embed.cmake
    DEPENDS ${page_sources} ${page}/embed.cmake VERBATIM)
set(LS_PAGE_ASSETS ${CMAKE_BINARY_DIR}/page-npm/assets.c)

// Reads our .hlog files with hdr-histogram-js, code that is not ours.
//
//   node hlog.mjs stats FILE...                  all lines of all files added, one JSON object
//   node hlog.mjs sum PART... -- WHOLE...        is the sum of the parts the sum of the wholes,
//                                                tag by tag and bucket by bucket? Prints the stats
//   node hlog.mjs check EXPECTED.json FILE...    do the stats equal EXPECTED?
//
// Stats are {tag: {count, mean_ns, stdev_ns, p50_ns, ..., max_ns}}, named as in result.json; lines
// without a tag are under "". A percentile is getValueAtPercentile's, but never above the maximum
// that the lines name: that one is exact, a bucket's end is not. EXPECTED is of the same form; what
// it does not name is not compared, and neither is what a file cannot tell (min_ns, clipped).
//
// LS_NODE_MODULES is the node_modules folder to use; otherwise node looks for one.
// Exit status: 0 equal, 1 not equal, 2 usage or an unreadable file.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';

const percentiles = { p50_ns: 50, p75_ns: 75, p90_ns: 90, p99_ns: 99, p999_ns: 99.9, p9999_ns: 99.99 };
const means = ['mean_ns', 'stdev_ns']; // sums of doubles: equal to 12 digits

function loadLibrary() {
    const folder = process.env.LS_NODE_MODULES;
    return createRequire(folder ? resolve(folder, 'x.js') : import.meta.url)('hdr-histogram-js');
}

function usage(text) {
    process.stderr.write(`hlog.mjs: ${text}\n`);
    process.exit(2);
}

// {tag: {histogram, max}} of all lines of all files.
function readFiles(hdr, files) {
    const sums = new Map();

    for (const file of files) {
        const text = readFileSync(file, 'utf8');
        const reader = new hdr.HistogramLogReader(text, 64);
        // Its reader hands out histograms, but not the third column.
        const lines = text.split('\n').filter((line) => /^(Tag=|[0-9])/.test(line));
        for (const line of lines) {
            const histogram = reader.nextIntervalHistogram();
            const columns = line.split(',');
            const tag = columns[0].startsWith('Tag=') ? columns.shift().slice(4) : '';
            const max = Math.round(Number(columns[2]) * 1e6);
            if ((histogram.tag === 'NO TAG' ? '' : histogram.tag) !== tag)
                throw new Error(`${file}: the lines are out of step`);
            const sum = sums.get(tag);
            if (sum === undefined) {
                sums.set(tag, { histogram, max });
            } else {
                sum.histogram.add(histogram);
                sum.max = Math.max(sum.max, max);
            }
        }
        if (reader.nextIntervalHistogram() !== null)
            throw new Error(`${file}: a line was overlooked`);
    }
    return sums;
}

function statsOf(sums) {
    const stats = {};

    for (const [tag, { histogram, max }] of [...sums].sort()) {
        const one = { count: histogram.totalCount };
        one.mean_ns = histogram.mean;
        one.stdev_ns = histogram.stdDeviation;
        for (const [name, percentile] of Object.entries(percentiles))
            one[name] = Math.min(histogram.getValueAtPercentile(percentile), max);
        one.max_ns = max;
        stats[tag] = one;
    }
    return stats;
}

// What differs, as lines for people.
function compareBuckets(parts, whole) {
    const wrong = [];

    for (const tag of new Set([...parts.keys(), ...whole.keys()])) {
        const a = parts.get(tag);
        const b = whole.get(tag);
        if (a === undefined || b === undefined) {
            wrong.push(`tag "${tag}": only in the ${a === undefined ? 'whole' : 'parts'}`);
            continue;
        }
        if (a.max !== b.max)
            wrong.push(`tag "${tag}": maximum ${a.max} of the parts, ${b.max} of the whole`);
        if (a.histogram.countsArrayLength !== b.histogram.countsArrayLength)
            wrong.push(`tag "${tag}": layouts differ`);
        for (let i = 0; i < a.histogram.countsArrayLength; i++) {
            const [m, n] = [a.histogram.getCountAtIndex(i), b.histogram.getCountAtIndex(i)];
            if (m !== n)
                wrong.push(`tag "${tag}": bucket ${i} at ${a.histogram.valueFromIndex(i)} ns: ` +
                           `${m} in the parts, ${n} in the whole`);
        }
    }
    return wrong;
}

function compareStats(expected, stats) {
    const wrong = [];

    for (const [tag, values] of Object.entries(expected)) {
        if (stats[tag] === undefined) {
            wrong.push(`tag "${tag}": not in the file`);
            continue;
        }
        for (const [name, value] of Object.entries(values)) {
            const got = stats[tag][name];
            const room = means.includes(name) ? Math.abs(value) * 1e-12 : 0;
            if (got !== undefined && !(Math.abs(got - value) <= room))
                wrong.push(`tag "${tag}": ${name} is ${value} in the result, ${got} by the file`);
        }
    }
    return wrong;
}

function main([command, ...words]) {
    const hdr = loadLibrary();
    let wrong = [];
    let stats;

    if (command === 'stats' && words.length > 0) {
        stats = statsOf(readFiles(hdr, words));
    } else if (command === 'sum' && words.indexOf('--') > 0 && words.at(-1) !== '--') {
        const parts = readFiles(hdr, words.slice(0, words.indexOf('--')));
        const whole = readFiles(hdr, words.slice(words.indexOf('--') + 1));
        wrong = compareBuckets(parts, whole);
        stats = statsOf(whole);
    } else if (command === 'check' && words.length > 1) {
        stats = statsOf(readFiles(hdr, words.slice(1)));
        wrong = compareStats(JSON.parse(readFileSync(words[0], 'utf8')), stats);
    } else {
        usage('stats FILE... | sum PART... -- WHOLE... | check EXPECTED.json FILE...');
    }
    process.stdout.write(`${JSON.stringify(stats, null, 2)}\n`);
    for (const line of wrong)
        process.stderr.write(`hlog.mjs: ${line}\n`);
    process.exitCode = wrong.length > 0 ? 1 : 0;
}

try {
    main(process.argv.slice(2));
} catch (error) {
    usage(error.message);
}

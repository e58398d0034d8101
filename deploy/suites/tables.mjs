// The tables of a result as a README shows them: node tables.mjs RESULT_FOLDER 'the command' [README]
// replaces what stands below "## Measured" in README, or prints it.
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';

const [folder, command, readme] = process.argv.slice(2);
const names = existsSync(`${folder}/result.json`) ? ['.'] : readdirSync(folder).sort();
const results = names
    .map((name) => `${folder}/${name}/result.json`)
    .filter((path) => existsSync(path))
    .map((path) => JSON.parse(readFileSync(path, 'utf8')));
const { facts } = results[0].hosts[0];
const verdicts = results.flatMap((result) => result.trials.map((trial) => trial.verdict));
const count = (verdict) => verdicts.filter((one) => one === verdict).length;
const lines = [
    '## Measured',
    '',
    `\`${command}\`, ${results[0].started_at.slice(0, 10)}, on ${facts.cpu_threads} CPUs (${facts.cpu_model}), ${facts.kernel}:` +
        ` ${count('valid')} trials valid, ${count('suspect')} suspect, ${count('invalid')} invalid, ${count('none')} not run.`,
];
const row = (cells) => `| ${cells.join(' | ')} |`;

for (const result of results) {
    for (const page of result.pages) {
        lines.push('', `### ${page.title}`, '', row([page.rows_are, ...page.columns]));
        lines.push(row(['---', ...page.columns.map(() => '---:')]));
        for (const { name, cells } of page.rows) {
            lines.push(row([name.replace(/^script\//, ''), ...cells.map((cell) => cell.text)]));
        }
        if (page.notes.length > 0) lines.push('', ...page.notes.map((note) => `- ${note}`));
    }
}

// Each plan ranks its own metrics, of those that ran; a page of several plans adds the places up, name by name.
const standings = new Map();

for (const { target, metrics, places = [] } of results.flatMap((result) => result.standings)) {
    const sum = standings.get(target) ?? { metrics: 0, places: [0, 0, 0, 0, 0] };

    standings.set(target, { metrics: sum.metrics + metrics, places: sum.places.map((count, i) => count + (places[i] ?? 0)) });
}
if (results.length > 1) {
    const ranked = [...standings].filter(([, { metrics }]) => metrics > 0);
    const first = (a, b) => a.findIndex((count, i) => count !== b[i]);

    ranked.sort(([, { places: a }], [, { places: b }]) => (b[first(a, b)] ?? 0) - (a[first(a, b)] ?? 0));
    lines.push('', '### Places, of all plans together', '', row(['target', '1st', '2nd', '3rd', '4th', '5th', 'of']));
    lines.push(row(['---', ...Array(6).fill('---:')]));
    for (const [target, { metrics, places }] of ranked) lines.push(row([target, ...places, metrics]));
    lines.push('', '- Each metric by its own direction, by medians, among those that ran.');
}
const text = `${lines.join('\n')}\n`;

if (readme === undefined) process.stdout.write(text);
else writeFileSync(readme, `${readFileSync(readme, 'utf8').split('## Measured')[0].trimEnd()}\n\n${text}`);

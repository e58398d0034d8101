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
const text = `${lines.join('\n')}\n`;

if (readme === undefined) process.stdout.write(text);
else writeFileSync(readme, `${readFileSync(readme, 'utf8').split('## Measured')[0].trimEnd()}\n\n${text}`);

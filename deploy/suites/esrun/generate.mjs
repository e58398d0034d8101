// Writes what the start-up plan reads: one large script, and a graph of 300 modules, each of which
// imports up to two others. `node generate.mjs FOLDER`; npm.sh does it.
import { mkdirSync, writeFileSync } from 'node:fs';

const folder = process.argv[2];
const lines = ['let sum = 0;'];

for (let i = 0; i < 20000; i++) lines.push(`function f${i}(x) { return (x * ${i % 97} + ${i}) % 1000003; }`);
for (let i = 0; i < 20000; i += 100) lines.push(`sum = f${i}(sum);`);
lines.push('console.log(sum);');
mkdirSync(`${folder}/modules`, { recursive: true });
writeFileSync(`${folder}/big.mjs`, `${lines.join('\n')}\n`);
for (let i = 0; i < 300; i++) {
    const parts = [2 * i + 1, 2 * i + 2].filter((k) => k < 300);
    const imports = parts.map((k) => `import m${k} from './m${k}.mjs';`);

    writeFileSync(
        `${folder}/modules/m${i}.mjs`,
        `${imports.join('\n')}\nexport default ${[i, ...parts.map((k) => `m${k}`)].join(' + ')};\n`,
    );
}
writeFileSync(`${folder}/modules/main.mjs`, "import sum from './m0.mjs';\nconsole.log(sum);\n");

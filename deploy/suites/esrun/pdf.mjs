// A PDF of 200 pages: its text, merged with itself, its first ten pages, and eight documents at once, by
// pdf-lib and pdfjs-dist. Checksums are words and pages.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import process from 'node:process';

const load = createRequire(`${process.env.MODULES}/`);
const { PDFDocument, StandardFonts } = load('pdf-lib');
const pdfjs = await import(pathToFileURL(load.resolve('pdfjs-dist/legacy/build/pdf.mjs')).href);

async function row(metric, run) {
    const before = performance.now();
    const checksum = String(await run());

    console.log(JSON.stringify({ metric, value: performance.now() - before, unit: 'ms', checksum }));
}

async function make(pages) {
    const document = await PDFDocument.create();
    const font = await document.embedFont(StandardFonts.Helvetica);

    for (let i = 0; i < pages; i++) {
        const page = document.addPage();

        for (let l = 0; l < 20; l++) page.drawText(`page ${i} line ${l} of words`, { x: 40, y: 750 - l * 20, size: 10, font });
    }
    return document.save();
}

async function copy(bytes, times, pages) {
    const merged = await PDFDocument.create();

    for (let k = 0; k < times; k++) {
        const from = await PDFDocument.load(bytes);

        for (const page of await merged.copyPages(from, from.getPageIndices().slice(0, pages))) merged.addPage(page);
    }
    return (await PDFDocument.load(await merged.save())).getPageCount();
}

const bytes = await make(200);

await row('text', async () => {
    const document = await pdfjs.getDocument({ data: new Uint8Array(bytes), verbosity: 0 }).promise;
    let words = 0;

    for (let i = 1; i <= document.numPages; i++) {
        const { items } = await (await document.getPage(i)).getTextContent();

        words += items.map((item) => item.str).join(' ').split(/\s+/).filter(Boolean).length;
    }
    return words;
});
await row('merge', () => copy(bytes, 2, 200));
await row('first_ten', () => copy(bytes, 1, 10));
await row('eight_at_once', async () => (await Promise.all(Array.from({ length: 8 }, () => make(50)))).length);
process.exit(0);

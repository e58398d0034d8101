// An image that is drawn here, made smaller in five codecs and sizes, one after the other, and as forty thumbnails
// at once, by MAKER: sharp, what Bun has, or createImageBitmap and OffscreenCanvas, as browsers have. The checksum
// is of what was made: a time counts only for that.
import { createRequire } from 'node:module';
import process from 'node:process';

const load = createRequire(`${process.env.MODULES}/`);
const sharp = load('sharp');
const width = 1600, height = 1200, count = 40;
const shapes = [['jpeg', 400], ['jpeg', 800], ['png', 400], ['webp', 400], ['webp', 800]];
const pixels = Buffer.alloc(width * height * 3);

for (let i = 0; i < pixels.length; i++) pixels[i] = (i * 31 + (i >> 8)) & 255;
const source = await sharp(pixels, { raw: { width, height, channels: 3 } }).jpeg({ quality: 90 }).toBuffer();
const makers = {
    sharp: (codec, wide) => sharp(source).resize(wide)[codec]({ quality: 80 }).toBuffer(),
    bun: (codec, wide) => new Bun.Image(source).resize(wide)[codec]({ quality: 80 }).bytes(),
    async bitmap(codec, wide) {
        const bitmap = await createImageBitmap(new Blob([source], { type: 'image/jpeg' }), {
            resizeWidth: wide, resizeHeight: (wide * height) / width, resizeQuality: 'high',
        });
        const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);

        canvas.getContext('bitmaprenderer').transferFromImageBitmap(bitmap); // which is 0 by 0 afterwards
        const blob = await canvas.convertToBlob({ type: `image/${codec}`, quality: 0.8 });

        return new Uint8Array(await blob.arrayBuffer());
    },
};
const make = makers[process.env.MAKER];

// By somebody else than who made it, and behind the clock.
async function look(data) {
    const { format, width: wide, height: high } = await sharp(Buffer.from(data)).metadata();

    return `${format} ${wide}x${high}`;
}

function print(metric, rest) {
    console.log(JSON.stringify({ metric, ...rest }));
}

async function row(metric, codec, run) {
    await run(); // warm-up
    const before = performance.now();
    const made = await run();
    const took = performance.now() - before;
    const kinds = [...new Set(await Promise.all(made.map(look)))].join();

    if (!kinds.startsWith(codec)) {
        for (const name of [metric, `${metric}_bytes`]) print(name, { not_applicable: `makes ${kinds} where ${codec} is asked for` });
        return;
    }
    print(metric, { value: took, unit: 'ms', checksum: `${made.length} of ${kinds}` });
    print(`${metric}_bytes`, { value: made[0].length, unit: 'B' });
}

for (const [codec, wide] of shapes) await row(`${codec}_${wide}`, codec, async () => [await make(codec, wide)]);
await row('thumbnails', 'jpeg', () => Promise.all(Array.from({ length: count }, () => make('jpeg', 400))));
process.exit(0);

// Forty thumbnails of an image that is drawn here, at once, by sharp, or by what Bun and browsers have.
// The checksum is of their sizes: a time counts only for what was made.
import { createRequire } from 'node:module';
import process from 'node:process';

const load = createRequire(`${process.env.MODULES}/`);
const width = 1600, height = 1200, count = 40;
const pixels = Buffer.alloc(width * height * 3);

for (let i = 0; i < pixels.length; i++) pixels[i] = (i * 31 + (i >> 8)) & 255;
const source = await load('sharp')(pixels, { raw: { width, height, channels: 3 } }).jpeg({ quality: 90 }).toBuffer();
const makers = {
    sharp: async () => {
        const { data, info } = await load('sharp')(source).resize(400).jpeg({ quality: 80 }).toBuffer({ resolveWithObject: true });

        return [data.length, `${info.width}x${info.height}`];
    },
    bun: async () => {
        const data = await new Bun.Image(source).resize(400).jpeg({ quality: 80 }).bytes();
        const { width: w, height: h } = await load('sharp')(Buffer.from(data)).metadata();

        return [data.length, `${w}x${h}`];
    },
};
const before = performance.now();
const made = await Promise.all(Array.from({ length: count }, makers[process.env.MAKER]));
const took = performance.now() - before;
const sizes = [...new Set(made.map(([, size]) => size))].join();

console.log(JSON.stringify({ metric: 'thumbnails', value: took, unit: 'ms', checksum: `${made.length} of ${sizes}` }));
console.log(JSON.stringify({ metric: 'bytes_of_one', value: made[0][0], unit: 'B' }));
process.exit(0);

// Says "ready" when it has what it is to have, and ends: idle nothing, live a million objects.
import process from 'node:process';

const live = [];

if (process.argv[2] === 'live') for (let i = 0; i < 1e6; i++) live.push({ id: i, name: `name ${i}` });
console.log('ready');
setTimeout(() => console.log(live.length), 200);

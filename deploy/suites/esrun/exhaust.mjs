// Three ways to run out of memory: does the runtime end gracefully? Says "ok" if it succeeded,
// "graceful" and the error if it could tell, and nothing if it could not.
import process from 'node:process';

const ways = {
    nest() {
        let nested = [];

        for (let i = 0; i < 200000; i++) nested = [nested];
        JSON.stringify(nested);
    },
    string() {
        let text = 'x'.repeat(1 << 20);

        for (;;) text += text;
    },
    async then() {
        let promise = Promise.resolve(0);

        for (let i = 0; i < 1e7; i++) promise = promise.then((x) => x + 1);
        await promise;
    },
};

try {
    await ways[process.argv[2]]();
    console.log('ok');
} catch (error) {
    console.log(`graceful ${error.name}`);
}

// Freezes clock and chance in a Node process (`--require`); RODS_FROZEN is the time that clocks show, in seconds since
// 1970. Clocks that only measure go on. Processes with equal calls draw equal numbers and ids.
'use strict';
const crypto = require('crypto');

if (process.env.RODS_ASKED) { // a file: of the names of variables that are asked for and not set
  const names = new Set(), { appendFileSync } = require('fs'), file = process.env.RODS_ASKED;
  process.env = new Proxy(process.env, {
    get: (target, key) => {
      if (typeof key === 'string' && !(key in target) && !names.has(key)) {
        names.add(key);
        appendFileSync(file, `${key}\n`);
      }
      return target[key];
    },
  });
}

const now = Number(process.env.RODS_FROZEN) * 1000;
const Real = Date;

globalThis.Date = new Proxy(Real, {
  construct: (target, args, made) => Reflect.construct(target, args.length ? args : [now], made),
  apply: () => new Real(now).toString(),
  get: (target, key) => (key === 'now' ? () => now : Reflect.get(target, key)),
});

let count = 0, rest = Buffer.alloc(0);
function bytes(size) {
  while (rest.length < size) {
    rest = Buffer.concat([rest, crypto.createHash('sha256').update(`rods ${count++}`).digest()]);
  }
  const given = Buffer.from(rest.subarray(0, size));
  rest = rest.subarray(size);
  return given;
}

Math.random = () => bytes(6).readUIntBE(0, 6) / 2 ** 48;
crypto.randomBytes = (size, done) => (done ? process.nextTick(done, null, bytes(size)) : bytes(size));
crypto.randomFillSync = (target, from = 0, size = target.byteLength - from) => {
  bytes(size).copy(Buffer.from(target.buffer, target.byteOffset, target.byteLength), from);
  return target;
};
crypto.randomUUID = () => {
  const raw = bytes(16);
  raw[6] = (raw[6] & 0x0f) | 0x40;
  raw[8] = (raw[8] & 0x3f) | 0x80;
  return raw.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
};
crypto.webcrypto.getRandomValues = (target) => crypto.randomFillSync(target);
crypto.webcrypto.randomUUID = crypto.randomUUID;
require('module').syncBuiltinESMExports();

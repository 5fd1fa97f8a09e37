/** Generates messages with pieces removed and inserted, and some made only of such pieces. Read as Latin-1, one character per byte. */
import fc from 'fast-check';

export function mutatedMail(mails: readonly string[], tokens: readonly string[]): fc.Arbitrary<string> {
  const mutation = fc.record({
    at: fc.double({ min: 0, max: 1, noNaN: true }),
    cut: fc.constantFrom(0, 0, 1, 2, 20, 300),
    put: fc.oneof(
      fc.constantFrom(...tokens),
      fc.string({ unit: 'binary-ascii', maxLength: 6 }),
      fc
        .tuple(fc.constantFrom(...tokens), fc.integer({ min: 2, max: 3000 }))
        .map(([token, times]) => token.repeat(times)),
      fc.constantFrom(...mails).map((mail) => mail.slice(0, 2000)),
    ),
  });
  const mutated = fc.tuple(fc.constantFrom(...mails), fc.array(mutation, { maxLength: 5 })).map(([mail, mutations]) =>
    mutations.reduce((text, { at, cut, put }) => {
      const index = Math.floor(at * text.length);
      return text.slice(0, index) + put + text.slice(index + cut);
    }, mail),
  );
  const composed = fc.array(fc.constantFrom(...tokens), { maxLength: 60 }).map((parts) => parts.join(''));
  return fc.oneof({ weight: 4, arbitrary: mutated }, { weight: 1, arbitrary: composed });
}

/** Text of others as it is shown: names of files, subjects, replies of servers. */

/** Characters that change the direction of text, and invisible ones that hide or split words. */
const DISGUISES = /[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g;

/** Replaces characters that disguise a text by their code points: `invoice<U+202E>gpj.exe` instead of `invoiceexe.jpg`. */
export function visible(text: string): string {
  return text.replace(DISGUISES, (character) => {
    const code = character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0');
    return `<U+${code}>`;
  });
}

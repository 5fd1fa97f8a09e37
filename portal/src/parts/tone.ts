/** The meaning of a color: it never stands without words. */
export type Tone = 'good' | 'bad' | 'wait' | 'calm' | 'note';

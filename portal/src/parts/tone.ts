/** A tone is the meaning of a color. Text next to the color always says the same. */
export type Tone = 'good' | 'bad' | 'wait' | 'calm' | 'note';

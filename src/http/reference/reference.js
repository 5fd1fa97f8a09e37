/**
 * Adds to the API reference what needs JavaScript: one language at a time, chosen once for all examples, copy buttons, the search field, and
 * the current operation in the navigation. It runs before the page is displayed, so the page does not change visibly.
 */
(() => {
  const LANGUAGE = 'postrider-reference-language';
  const root = document.documentElement;
  const first = 'curl';

  function stored() {
    try {
      return localStorage.getItem(LANGUAGE);
    } catch {
      return null; // The browser keeps no data for this site.
    }
  }

  function choose(language) {
    root.dataset.language = language;
    for (const button of document.querySelectorAll('.tabs button')) {
      button.setAttribute('aria-pressed', String(button.dataset.choice === language));
    }
  }

  function remember(language) {
    try {
      localStorage.setItem(LANGUAGE, language);
    } catch {
      // The choice then applies to this page only.
    }
  }

  function addTabs(samples) {
    const tabs = document.createElement('div');
    tabs.className = 'tabs';
    tabs.setAttribute('role', 'group');
    tabs.setAttribute('aria-label', 'Language of the example');
    for (const block of samples.querySelectorAll('[data-language]')) {
      const button = document.createElement('button');
      button.type = 'button';
      button.dataset.choice = block.dataset.language;
      button.textContent = block.querySelector('.label').textContent;
      tabs.append(button);
    }
    samples.prepend(tabs);
  }

  /** Changes the language everywhere, and keeps the clicked tab where it is although the examples above it change their heights. */
  function onTab(button) {
    const before = button.getBoundingClientRect().top;
    choose(button.dataset.choice);
    remember(button.dataset.choice);
    scrollBy({ top: button.getBoundingClientRect().top - before, behavior: 'instant' });
  }

  function addCopyButton(block) {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'copy';
    button.textContent = 'Copy';
    button.setAttribute('aria-label', `Copy: ${block.querySelector('.label').textContent}`);
    block.append(button);
  }

  async function copy(button) {
    await navigator.clipboard.writeText(button.parentElement.querySelector('code').textContent);
    button.textContent = 'Copied';
    setTimeout(() => {
      button.textContent = 'Copy';
    }, 1500);
  }

  function startSearch() {
    const box = document.querySelector('.search');
    const input = box.querySelector('input');
    const result = box.querySelector('output');
    const groups = [...document.querySelectorAll('.contents > ul > li')].map((group) => ({
      group,
      name: group.querySelector('.tag').textContent.toLowerCase(),
      items: [...group.querySelectorAll('li')].map((item) => {
        const link = item.querySelector('a');
        const text = `${link.textContent} ${link.dataset.path} ${link.hash.slice(1)}`;
        return { item, link, text: text.toLowerCase() };
      }),
    }));
    const filter = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      for (const { group, name, items } of groups) {
        let found = 0;
        for (const { item, text } of items) {
          item.hidden = !words.every((word) => `${name} ${text}`.includes(word));
          if (!item.hidden) found += 1;
        }
        group.hidden = words.length > 0 && found === 0 && !words.every((word) => name.includes(word));
        count += found;
      }
      result.textContent = words.length === 0 ? '' : `${count} ${count === 1 ? 'operation' : 'operations'}`;
    };
    box.hidden = false;
    input.addEventListener('input', filter);
    input.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') input.value = '';
      if (event.key === 'Escape') filter();
      if (event.key !== 'Enter') return;
      document.querySelector('.contents li li:not([hidden]) a')?.click();
    });
    addEventListener('keydown', (event) => {
      if (event.key !== '/' || event.target.closest('input, textarea')) return;
      event.preventDefault();
      document.querySelector('.menu').open = true;
      input.focus();
    });
  }

  /** Marks the operation at the top of the window in the navigation. */
  function followScrolling() {
    const links = new Map([...document.querySelectorAll('.contents a')].map((link) => [link.hash.slice(1), link]));
    const contents = document.querySelector('.contents');
    let current;
    const mark = (id) => {
      const link = links.get(id);
      if (link === undefined || link === current) return;
      current?.removeAttribute('aria-current');
      current = link;
      link.setAttribute('aria-current', 'location');
      const [outer, inner] = [contents.getBoundingClientRect(), link.getBoundingClientRect()];
      if (inner.top >= outer.top + 80 && inner.bottom <= outer.bottom - 40) return;
      contents.scrollTop += inner.top - outer.top - outer.height / 3;
    };
    const observer = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) if (entry.isIntersecting) mark(entry.target.id);
      },
      { rootMargin: '-15% 0px -80%' },
    );
    for (const section of document.querySelectorAll('main section[id]')) observer.observe(section);
  }

  root.classList.add('scripted');
  root.dataset.language = stored() ?? first;

  document.addEventListener('DOMContentLoaded', () => {
    for (const samples of document.querySelectorAll('.samples')) addTabs(samples);
    if (navigator.clipboard) for (const block of document.querySelectorAll('.block')) addCopyButton(block);
    const isKnown = document.querySelector(`.tabs [data-choice="${CSS.escape(root.dataset.language)}"]`) !== null;
    choose(isKnown ? root.dataset.language : first);
    document.addEventListener('click', (event) => {
      const button = event.target.closest('button');
      if (button?.dataset.choice !== undefined) onTab(button);
      if (button?.className === 'copy') copy(button);
      const isDrawer = getComputedStyle(document.querySelector('.menu > summary')).display !== 'none';
      if (isDrawer && event.target.closest('.contents a')) document.querySelector('.menu').open = false;
    });
    startSearch();
    followScrolling();
  });
})();

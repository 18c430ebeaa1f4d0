/** The script of the page: it fetches the page every two seconds and applies the differences. */
export const script = `
(() => {
  const everyMs = 2000;
  const patienceMs = 5000;
  const pause = document.getElementById('pause');
  const connection = document.getElementById('connection');
  let isPaused = false;
  let isBusy = false;

  // In place: replaced elements would lose focus, selection and scroll position.
  const update = (old, next) => {
    if (old.isEqualNode(next)) return;
    for (const { name } of [...old.attributes]) {
      if (!next.hasAttribute(name) && name !== 'open') old.removeAttribute(name);
    }
    for (const { name, value } of [...next.attributes]) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    const nodes = [...next.childNodes];
    nodes.forEach((node, index) => {
      const known = old.childNodes[index];
      if (known === undefined) old.append(document.importNode(node, true));
      else if (known.nodeName !== node.nodeName) known.replaceWith(document.importNode(node, true));
      else if (node.nodeType === Node.ELEMENT_NODE) update(known, node);
      else if (known.nodeValue !== node.nodeValue) known.nodeValue = node.nodeValue;
    });
    while (old.childNodes.length > nodes.length) old.lastChild.remove();
  };

  const renew = async () => {
    if (isBusy || isPaused || document.hidden) return;
    isBusy = true;
    try {
      const answer = await fetch(location.pathname + location.search, { cache: 'no-store', signal: AbortSignal.timeout(patienceMs) });
      if (!answer.ok) throw new Error('status ' + answer.status);
      const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
      if (isPaused) return;
      for (const part of document.querySelectorAll('[data-live]')) {
        const next = page.getElementById(part.id);
        if (next !== null) update(part, next);
      }
      document.title = page.title;
      const icon = document.querySelector('link[rel=icon]');
      const nextIcon = page.querySelector('link[rel=icon]');
      if (icon.href !== nextIcon.href) icon.href = nextIcon.href;
      connection.hidden = true;
      document.body.classList.remove('lost');
    } catch {
      if (connection.hidden) connection.textContent = 'Connection lost: this page is out of date.';
      connection.hidden = false;
      document.body.classList.add('lost');
      document.title = 'connection lost · Ledgergate';
    } finally {
      isBusy = false;
    }
  };

  pause.hidden = false;
  pause.addEventListener('click', () => {
    isPaused = !isPaused;
    pause.setAttribute('aria-pressed', String(isPaused));
    renew();
  });
  document.addEventListener('input', ({ target }) => {
    const query = new URLSearchParams(location.search);
    query.set(target.name, target.value);
    history.replaceState(null, '', '?' + query);
    renew();
  });
  document.addEventListener('visibilitychange', renew);
  setInterval(renew, everyMs);
})();
`;

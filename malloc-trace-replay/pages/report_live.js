/* SPDX-License-Identifier: BSD-3-Clause
 * Renews the page of malloc-trace report --serve, after report_page.js. */
(function () {
  var tag = null, last = null, paused = false;
  function $(id) { return document.getElementById(id); }
  function tell(text, over) {
    $("live").textContent = text;
    $("live").classList.toggle("over", over);
  }
  function renew_with(text) {
    var fresh = new DOMParser().parseFromString(text, "text/html");
    ["data", "head", "lead", "history"].forEach(function (id) {
      var now = fresh.getElementById(id), old = $(id);
      if (now && old) old.replaceWith(now);
      else if (now) $("controls").before(now);
    });
    $("measures").children[2].textContent =
      fresh.getElementById("measures").children[2].textContent;
    last = new Date();
    document.dispatchEvent(new Event("renewed"));
  }
  function renew() {
    if (paused || document.hidden) return;
    fetch(location.pathname, { cache: "no-cache" }).then(function (answer) {
      if (!answer.ok) throw new Error();
      var now = answer.headers.get("ETag");
      if (now === tag) return null;
      tag = now;
      return answer.text();
    }).then(function (text) {
      if (text !== null) renew_with(text);
      var running = JSON.parse($("data").textContent).running;
      tell((running ? "Following the recording; as of " :
        "The recording has ended; read at ") +
        last.toLocaleTimeString(), !running);
    }).catch(function () {
      tell("The service does not answer" +
        (last ? "; as of " + last.toLocaleTimeString() : ""), true);
    });
  }
  function follow() {
    $("pause").addEventListener("click", function () {
      paused = !paused;
      this.setAttribute("aria-pressed", String(paused));
      if (paused) tell("Paused", true);
      else renew();
    });
    renew();
    setInterval(renew, 1500);
  }
  $("measures").children[2].click();
  follow();
})();
